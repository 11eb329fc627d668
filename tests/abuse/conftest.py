from tests.integration.external.outside import secret as secret

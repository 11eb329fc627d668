from tests.integration.hooks.events import secret as secret

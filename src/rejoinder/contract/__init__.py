"""The words every other part shares: questions, answers, runs, identities, errors. No I/O."""

"""Logins for the replicas: the provider, the browser and the OAuth client of interop/oauth.py."""

import asyncio
import http.client
import importlib.util
import pathlib
import secrets

OAUTH = pathlib.Path(__file__).resolve().parent.parent / "oauth"


def module(name):
    """A module of interop/oauth, whose names are also used here."""
    spec = importlib.util.spec_from_file_location(f"oauth_{name}", OAUTH / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


oauth, browser = module("world"), module("browser")


class Logins:
    """An identity provider, and the users who logged in."""

    def __init__(self, folder, base, valkey, key):
        self.base, self.port, self.secret = base, oauth.free_port(), secrets.token_urlsafe(24)
        self.provider = oauth.provider(folder, self.port, self.secret, 3600, [base]).start()
        url = f"http://localhost:{self.port}/.well-known/openid-configuration"
        oauth.wait_for("the provider", lambda: oauth.request(url)[0] == 200)
        self.settings = {
            "enabled": True,
            "baseUrl": base,
            "provider": "dex",
            "dex": {"issuerUrl": f"http://localhost:{self.port}", "clientId": "muster", "clientSecret": self.secret},
            "storage": {"type": "valkey", "valkey": {"url": f"127.0.0.1:{valkey}"}},
            "encryptionKey": key,
            "allowPublicClientRegistration": True,
        }

    def log_in(self, users):
        """The tokens of each user. Pages of one login come from different replicas."""
        self.client = oauth.Client(self.base)
        return {user: self.client.login(browser.Browser(user))[1] for user in users}

    def refresh(self, token):
        """The status and the new tokens; none if the connection was cut."""
        try:
            return self.client.refresh(token)
        except (OSError, ValueError, http.client.HTTPException):
            return None

    def lost(self, tokens):
        """The users whose login cannot be refreshed."""
        return [user for user, token in tokens.items() if self.client.refresh(token)[0] != 200]

    def end(self):
        self.provider.stop()


async def refresh(logins, tokens, access, tally, stop):
    """Refreshes one login after the other, while replicas are killed, until `stop` is set."""
    while tokens and not stop.is_set():
        for user in list(tokens):
            await asyncio.sleep(0.5)
            if stop.is_set():
                return
            # Not interrupted: what it returns is the only copy.
            outcome = await asyncio.to_thread(logins.refresh, tokens[user])
            if outcome is None:
                # Cut: the refresh token may have been used, and must not be used again.
                tally.counts["refreshes that were cut"] += 1
                del tokens[user]
            elif outcome[0] == 200:
                tally.counts["refreshes"] += 1
                tokens[user], access[user].value = outcome[1], outcome[1]["access_token"]
            else:
                tally.problem(f"the login of {user} is lost: {outcome}")
                del tokens[user]

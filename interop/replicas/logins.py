"""Logins for the replicas: the provider, the browser and the OAuth client of interop/oauth.py."""

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

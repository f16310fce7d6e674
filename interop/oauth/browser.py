"""A browser without a window: cookies, redirects, and forms that it fills in."""

import html.parser
import http.cookiejar
import urllib.error
import urllib.parse
import urllib.request


class Form(html.parser.HTMLParser):
    """The first form of a page."""

    def __init__(self):
        super().__init__()
        self.action = self.method = None
        self.fields, self.buttons = {}, []

    def handle_starttag(self, tag, attributes):
        at = dict(attributes)
        if tag == "form" and self.action is None:
            self.action, self.method = at.get("action", ""), at.get("method", "get").lower()
        elif tag == "input" and at.get("name"):
            self.fields[at["name"]] = at.get("value", "")
        elif tag == "button" and at.get("name"):
            self.buttons.append((at["name"], at.get("value", "")))


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


class Browser:
    def __init__(self, user, decision="allow"):
        self.user, self.decision = user, decision
        self.jar = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(NoRedirect, urllib.request.HTTPCookieProcessor(self.jar))
        self.seen = []

    def fetch(self, url, form=None):
        body = None if form is None else urllib.parse.urlencode(form).encode()
        headers = {"Accept": "text/html"}
        if form is not None:
            headers["Origin"] = "{0.scheme}://{0.netloc}".format(urllib.parse.urlsplit(url))
        self.seen.append(url.split("?")[0])
        try:
            with self.opener.open(urllib.request.Request(url, body, headers), timeout=20) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.headers, answer.read().decode()

    def visit(self, url, until, pause=None):
        """Goes on until an address that begins with `until`, which is returned and not visited."""
        form = None
        for _ in range(20):
            if pause:
                pause(url)
            status, headers, page = self.fetch(url, form)
            form = None
            if 300 <= status < 400:
                url = urllib.parse.urljoin(url, headers["Location"])
                if url.startswith(until):
                    return url
                continue
            found = Form()
            found.feed(page)
            if status != 200 or found.action is None:
                raise AssertionError(f"{url.split('?')[0]} answered {status}: {page[:300]}")
            url = urllib.parse.urljoin(url, found.action) if found.action else url
            form = {**found.fields, **{name: self.user for name in ("login", "password") if name in found.fields}}
            form.update(next(([button] for button in found.buttons if button[1] == self.decision), []))
        raise AssertionError(f"no end of redirects: {self.seen}")


def query_of(url):
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))

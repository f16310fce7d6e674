//! The page that asks a user whether to let a client in.

use std::time::Duration;

use http::{HeaderMap, StatusCode};

use super::{Flow, PATIENCE};
use crate::{
    random,
    server::{
        Inner,
        fields::Fields,
        redirect_uri::RedirectUri,
        reply::{self, Failure, Reply, escape},
    },
};

/// How long a browser's consent holds.
const REMEMBER: Duration = Duration::from_secs(30 * 24 * 3600);

fn ask_key(id: &str) -> String {
    format!("ask:{}", random::digest_of(id))
}

/// Consent is given by a browser, to a client, for one place to send codes to.
fn consent_key(client: &str, redirect_uri: &str, browser: &str) -> String {
    // A client on the user's own machine takes another port each time.
    let place = match RedirectUri::parse(redirect_uri) {
        Some(uri) if uri.is_loopback() => "loopback",
        _ => redirect_uri,
    };
    format!("consent:{}", random::digest_of(&format!("{browser}\n{client}\n{place}")))
}

impl Inner {
    /// Whether this browser has let this client in before.
    pub(super) async fn has_consented(
        &self,
        client: &str,
        redirect_uri: &str,
        browser: Option<&str>,
    ) -> Result<bool, Failure> {
        let Some(browser) = browser else { return Ok(false) };
        let key = consent_key(client, redirect_uri, browser);
        Ok(self.vault.get::<bool>(&key).await?.is_some())
    }

    /// Asks the user.
    pub(super) async fn ask(&self, flow: Flow) -> Result<Reply, Failure> {
        let id = random::token()?;
        self.vault.put(&ask_key(&id), &flow, PATIENCE).await?;
        Ok(reply::page(StatusCode::OK, question(&flow, &id)))
    }

    /// `POST /oauth/consent`.
    pub(in crate::server) async fn consent(
        &self,
        headers: &HeaderMap,
        fields: &Fields,
    ) -> Result<Reply, Failure> {
        let old =
            || Failure::request("the login has taken too long or was answered; begin it again");
        let key = ask_key(fields.need("flow")?);
        let flow: Flow = self.vault.get(&key).await?.ok_or_else(old)?;
        let browser = self.cookie(headers).map(|cookie| random::digest_of(&cookie));
        if browser.is_none() || browser != flow.browser {
            return Err(Failure::request("the login was begun in another browser"));
        }
        let flow: Flow = self.vault.take(&key).await?.ok_or_else(old)?;
        if fields.get("decision") != Some("allow") {
            let failure = Failure { code: "access_denied", ..Failure::request("the user refused") };
            return Ok(self.back(&flow.redirect_uri, &flow.state, &failure));
        }
        if let Some(browser) = &flow.browser {
            let key = consent_key(&flow.client, &flow.redirect_uri, browser);
            self.vault.put(&key, &true, REMEMBER).await?;
        }
        self.to_provider(flow).await
    }
}

fn question(flow: &Flow, id: &str) -> String {
    let name =
        if flow.client_name.is_empty() { "A program without a name" } else { &flow.client_name };
    let described = if flow.client.starts_with("https://") {
        format!("<dt>Described at</dt><dd>{}</dd>", escape(&flow.client))
    } else {
        String::new()
    };
    let local = RedirectUri::parse(&flow.redirect_uri).is_some_and(|uri| uri.is_loopback());
    let warning = if local {
        "<p>It runs on your own computer. Go on only if you have just started it yourself.</p>"
    } else {
        ""
    };
    page(
        "Let it in?",
        &format!(
            "<p><strong>{}</strong> wants to use this gateway in your name.</p>\
             <dl>{described}<dt>Sends you back to</dt><dd>{}</dd></dl>{warning}\
             <form method=\"post\" action=\"consent\">\
             <input type=\"hidden\" name=\"flow\" value=\"{}\">\
             <button name=\"decision\" value=\"allow\">Allow</button> \
             <button name=\"decision\" value=\"deny\">Deny</button></form>",
            escape(name),
            escape(&flow.redirect_uri),
            escape(id),
        ),
    )
}

/// A page of ours around some text.
pub(super) fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>muster: {title}</title>\
         <style>body{{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:4rem auto;padding:0 1rem}}\
         dd{{margin:0 0 .5rem;overflow-wrap:anywhere}}dt{{color:#555}}button{{font:inherit;padding:.4rem 1.2rem}}\
         @media(prefers-color-scheme:dark){{body{{background:#111;color:#eee}}dt{{color:#aaa}}}}</style></head>\
         <body><h1>{title}</h1>{body}</body></html>"
    )
}

//! The functions of sprig that are refused on a server, with the reasons.

use super::{Call, Function, ParamType};

const ENVIRONMENT: &str =
    "the environment of the server is not for templates to read; pass the value as an argument";
const NETWORK: &str = "templates do not reach the network; let a step look the name up";
const KEYS: &str =
    "templates do not make keys or certificates; let a tool make them, which can also keep them";
const MASTER: &str =
    "a master password does not belong in a template; let a tool derive what is needed";

/// Every refused function with its reason.
pub const REFUSED: [(&str, &str); 12] = [
    ("buildCustomCert", KEYS),
    ("derivePassword", MASTER),
    ("env", ENVIRONMENT),
    ("expandenv", ENVIRONMENT),
    ("genCA", KEYS),
    ("genCAWithKey", KEYS),
    ("genPrivateKey", KEYS),
    ("genSelfSignedCert", KEYS),
    ("genSelfSignedCertWithKey", KEYS),
    ("genSignedCert", KEYS),
    ("genSignedCertWithKey", KEYS),
    ("getHostByName", NETWORK),
];

pub(super) static FUNCTIONS: [Function; REFUSED.len()] = functions();

const fn functions() -> [Function; REFUSED.len()] {
    const NONE: Function =
        Function { name: "", takes: &[], rest: Some(ParamType::Any), call: Call::Until(false) };
    let mut functions = [NONE; REFUSED.len()];
    let mut i = 0;
    while i < REFUSED.len() {
        #[expect(clippy::indexing_slicing, reason = "checked by the compiler: this runs in it")]
        {
            let (name, reason) = REFUSED[i];
            functions[i] = Function { name, call: Call::Refused(reason), ..NONE };
        }
        i += 1;
    }
    functions
}

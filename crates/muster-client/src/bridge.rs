//! The user's login behind `muster agent --mcp-server`: its token, and the MCP server that clients see until there is
//! one.

pub mod login_server;
pub mod user_login;

//! Vectors for lines of JSON text: what `bench/retrieval/run.py --model` drives.

use std::{
    env,
    error::Error,
    io::{self, BufRead as _, Write as _},
    path::PathBuf,
};

use muster_search::encoder::Model;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args_os().nth(1).map(PathBuf::from).ok_or("usage: embed FOLDER")?;
    let model = Model::load(&folder)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let text: String = serde_json::from_str(&line?)?;
        writeln!(out, "{}", serde_json::to_string(&model.embed(&[&text]).concat())?)?;
    }
    out.flush()?;
    Ok(())
}

use bytes::Bytes;
use milepost_raft::NodeId;

use super::fetcher::Purpose;
use super::{Cache, Request};
use crate::peer::Answer;

impl Cache {
    /// Gives a neighbour one part of an object, from here or, once for all who ask, from the store. What cannot be given is
    /// refused, whatever the reason: the neighbour then asks the store, and sees for itself.
    pub async fn answer(&self, from: NodeId, request: Bytes) -> Answer {
        let refused = |why: &str| Answer::Refused(why.to_owned());
        if !self.fetcher.source.neighbours.is_near(from) {
            return refused("record bytes are given within a zone only");
        }
        let Ok(Request { name, range, catch_up }) = Request::decode(&request) else {
            return refused("malformed");
        };
        let Some(part) = self.cut.part_at(range) else {
            return refused("objects are cut otherwise here");
        };
        let _turn = self.serving.acquire().await.expect("never closed");
        match self.fetching_for(Purpose::Neighbour { catch_up }).part(name, part).await {
            Ok(bytes) => {
                self.metrics().neighbour_reads_served.inc();
                Answer::Done(bytes)
            }
            Err(e) => refused(&e.to_string()),
        }
    }
}

use kafka_protocol::protocol::StrBytes;

use crate::cluster::{self, RootRefusal};
use crate::protocol::{ErrorCode, TopicRef};
use crate::types::BrokerId;

/// Why a part of a request was not done. The text is for a person, the code for the client.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    #[error("{0}")]
    InvalidTopic(String),
    #[error("This server does not host this topic ID.")]
    UnknownTopicId,
    #[error("{0}")]
    InvalidPartitions(String),
    #[error("{0}")]
    InvalidReplicationFactor(String),
    #[error("{0}")]
    InvalidConfig(String),
    #[error("{0}")]
    InvalidRequest(String),
    #[error("The throttling quota has been exceeded.")]
    ThrottlingQuotaExceeded,
    #[error("{0}")]
    PolicyViolation(&'static str),
    #[error("Topic '{0}' already exists.")]
    TopicExists(String),
    #[error("The topic '{0}' does not exist.")]
    UnknownTopic(String),
    #[error("{0}")]
    InvalidUpdateVersion(String),
    #[error("{0}")]
    UnsupportedVersion(String),
    /// It was begun and goes on by itself.
    #[error("not finished within the request's timeout; it is being worked on")]
    TimedOut,
    #[error("The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER")]
    OtherEndpointType,
    #[error("Unsupported endpoint type {0}")]
    UnknownEndpointType(i8),
    #[error("{0}")]
    InvalidReplicaAssignment(String),
    #[error("this is cluster {0}")]
    OtherCluster(String),
    #[error("broker {0} is a voter already")]
    DuplicateVoter(BrokerId),
    #[error("broker {0}, with this directory, is no voter")]
    VoterNotFound(BrokerId),
    #[error("the voters are three live brokers, in distinct zones where there are as many, and are not chosen by hand")]
    VotersChooseThemselves,
}

impl From<RootRefusal> for Error {
    /// The root would refuse it: known here without asking.
    fn from(refusal: RootRefusal) -> Error {
        Error::Cluster(refusal.into())
    }
}

impl Error {
    pub fn code(&self) -> ErrorCode {
        match self {
            Error::Cluster(e) => match e {
                cluster::Error::Refused(refusal) => of_refusal(*refusal),
                // Nothing was done: admin clients look for a controller again and repeat the request.
                cluster::Error::Unavailable => ErrorCode::NotController,
                cluster::Error::Unknown => ErrorCode::RequestTimedOut,
            },
            Error::InvalidTopic(_) => ErrorCode::InvalidTopic,
            Error::UnknownTopicId => ErrorCode::UnknownTopicId,
            Error::InvalidPartitions(_) => ErrorCode::InvalidPartitions,
            Error::InvalidReplicationFactor(_) => ErrorCode::InvalidReplicationFactor,
            Error::InvalidConfig(_) => ErrorCode::InvalidConfig,
            Error::InvalidRequest(_) => ErrorCode::InvalidRequest,
            Error::UnsupportedVersion(_) => ErrorCode::UnsupportedVersion,
            Error::ThrottlingQuotaExceeded => ErrorCode::ThrottlingQuotaExceeded,
            Error::PolicyViolation(_) => ErrorCode::PolicyViolation,
            Error::TopicExists(_) => ErrorCode::TopicAlreadyExists,
            Error::UnknownTopic(_) => ErrorCode::UnknownTopicOrPartition,
            Error::InvalidUpdateVersion(_) => ErrorCode::InvalidUpdateVersion,
            Error::TimedOut => ErrorCode::RequestTimedOut,
            Error::OtherEndpointType => ErrorCode::MismatchedEndpointType,
            Error::UnknownEndpointType(_) => ErrorCode::UnsupportedEndpointType,
            Error::InvalidReplicaAssignment(_) => ErrorCode::InvalidReplicaAssignment,
            Error::OtherCluster(_) => ErrorCode::InconsistentClusterId,
            Error::DuplicateVoter(_) => ErrorCode::DuplicateVoter,
            Error::VoterNotFound(_) => ErrorCode::VoterNotFound,
            Error::VotersChooseThemselves => ErrorCode::InvalidRequest,
        }
    }

    /// Names the topic where the root's refusal does not.
    pub(super) fn of_topic(self, name: &str) -> Error {
        match self {
            Error::Cluster(cluster::Error::Refused(RootRefusal::TopicExists)) => Error::TopicExists(name.to_owned()),
            Error::Cluster(cluster::Error::Refused(RootRefusal::UnknownTopic)) => Error::UnknownTopic(name.to_owned()),
            other => other,
        }
    }

    pub(super) fn message(&self) -> Option<StrBytes> {
        Some(StrBytes::from_string(self.to_string()))
    }
}

fn of_refusal(refusal: RootRefusal) -> ErrorCode {
    match refusal {
        RootRefusal::TopicExists => ErrorCode::TopicAlreadyExists,
        RootRefusal::UnknownTopic => ErrorCode::UnknownTopicOrPartition,
        // Shards of a factor are missing only while there are too few brokers for it.
        RootRefusal::NoShard => ErrorCode::InvalidReplicationFactor,
        RootRefusal::NotGrowing => ErrorCode::InvalidPartitions,
        // Somebody is always quicker: nothing was changed, and the same request may succeed.
        RootRefusal::ConfigsChanged => ErrorCode::RequestTimedOut,
        RootRefusal::UnknownNode | RootRefusal::BrokerInUse => ErrorCode::UnknownServerError,
        RootRefusal::Moving => ErrorCode::ReassignmentInProgress,
        RootRefusal::NotMoving => ErrorCode::NoReassignmentInProgress,
        RootRefusal::ShardChanged => ErrorCode::InvalidReplicaAssignment,
        RootRefusal::UnknownBroker => ErrorCode::BrokerIdNotRegistered,
        RootRefusal::BrokerAlive | RootRefusal::LastReplicas => ErrorCode::InvalidRequest,
        RootRefusal::TooManyShards => ErrorCode::PolicyViolation,
    }
}

/// The two fields that every result has.
pub(super) fn code_and_message<T>(result: &Result<T, Error>) -> (i16, Option<StrBytes>) {
    match result {
        Ok(_) => (ErrorCode::None.code(), None),
        Err(e) => (e.code().code(), e.message()),
    }
}

/// A topic that is not there, in Kafka's word for the way it was named.
pub(super) fn unknown(topic: &TopicRef) -> Error {
    match topic {
        TopicRef::Name(_) => RootRefusal::UnknownTopic.into(),
        TopicRef::Id(_) => Error::UnknownTopicId,
    }
}

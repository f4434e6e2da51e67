//! What a client may do, as bits by Kafka's `AclOperation` code. Without an authorizer that is all that a resource of the
//! kind supports (`AclEntry.supportedOperations`); an answer that was not asked for it says `i32::MIN`, the default.

const READ: i32 = 1 << 3;
const WRITE: i32 = 1 << 4;
const CREATE: i32 = 1 << 5;
const DELETE: i32 = 1 << 6;
const ALTER: i32 = 1 << 7;
const DESCRIBE: i32 = 1 << 8;
const CLUSTER_ACTION: i32 = 1 << 9;
const DESCRIBE_CONFIGS: i32 = 1 << 10;
const ALTER_CONFIGS: i32 = 1 << 11;
const IDEMPOTENT_WRITE: i32 = 1 << 12;

pub(super) const ON_A_TOPIC: i32 = READ | WRITE | CREATE | DESCRIBE | DELETE | ALTER | DESCRIBE_CONFIGS | ALTER_CONFIGS;
pub(super) const ON_THE_CLUSTER: i32 =
    CREATE | CLUSTER_ACTION | DESCRIBE_CONFIGS | ALTER_CONFIGS | IDEMPOTENT_WRITE | ALTER | DESCRIBE;
/// Groups of every kind.
pub const ON_A_GROUP: i32 = READ | DELETE | DESCRIBE | DESCRIBE_CONFIGS | ALTER_CONFIGS;

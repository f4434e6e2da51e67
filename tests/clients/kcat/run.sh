#!/usr/bin/env bash
# kcat: the command line of librdkafka.  usage: run.sh BOOTSTRAP
# The topics are made by producing to them: kcat has no other way.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
BOOTSTRAP=$1 RUN=$(date +%s%N)
k() { timeout 30 kcat -b "$BOOTSTRAP" -X topic.metadata.propagation.max.ms=10000 "$@"; }

made_by_producing() {
    local topic=kcat-lines-$RUN
    seq 1000 | k -P -t "$topic" -p 0 -X enable.idempotence=true || return
    same "$(k -C -t "$topic" -p 0 -o beginning -e -q)" "$(seq 1000)"
}

every_codec() {
    local codec topic
    for codec in none gzip snappy lz4 zstd; do
        topic=kcat-$codec-$RUN
        seq 5000 | k -P -t "$topic" -p 0 -z "$codec" || return
        same "$(k -C -t "$topic" -p 0 -o beginning -e -q | md5sum)" "$(seq 5000 | md5sum)" || return
    done
}

keys_and_headers() {
    local topic=kcat-keys-$RUN
    printf 'a:1\nb:2\nc:3\n' | k -P -t "$topic" -p 0 -K : -H trace=42 -H empty= || return
    same "$(k -C -t "$topic" -p 0 -o beginning -e -q -f '%o %k %s %h\n')" \
        $'0 a 1 trace=42,empty=\n1 b 2 trace=42,empty=\n2 c 3 trace=42,empty='
}

listing() {
    local topic=kcat-lines-$RUN shown
    shown=$(k -L -t "$topic") || return
    grep -q "topic \"$topic\" with [1-9]" <<<"$shown" && grep -q 'partition 0, leader [0-9]' <<<"$shown" || {
        echo "$shown"
        return 1
    }
}

listing_all() {
    # Twice through a pipe that is read to its end, as `grep -q` would break it.
    k -L | grep -c -e "kcat-lines-$RUN" -e "kcat-keys-$RUN" | grep -qx 2
}

offsets_by_time() {
    local topic=kcat-lines-$RUN
    # -1 asks for the end, -2 for the beginning, another number for a time in milliseconds.
    same "$(k -Q -t "$topic:0:-1")" "$topic [0] offset 1000" &&
        same "$(k -Q -t "$topic:0:-2")" "$topic [0] offset 0" &&
        same "$(k -Q -t "$topic:0:1000")" "$topic [0] offset 0"
}

the_last_ones() {
    local topic=kcat-lines-$RUN
    same "$(k -C -t "$topic" -p 0 -o -3 -e -q)" "$(seq 998 1000)" &&
        same "$(k -C -t "$topic" -p 0 -o 500 -c 2 -q)" $'501\n502'
}

group() { k -G "kcat-group-$RUN" -X auto.offset.reset=earliest -e -q "$@"; }
as_a_group() {
    local topic=kcat-grouped-$RUN
    seq 300 | k -P -t "$topic" -p 0 && same "$(group "$topic" | sort -n)" "$(seq 300)" || return
    seq 301 400 | k -P -t "$topic" -p 0 && same "$(group "$topic" | sort -n)" "$(seq 301 400)"
}

claim lines_come_back_from_a_topic_made_by_producing made_by_producing
claim every_codec_comes_back every_codec
claim keys_and_headers_come_back keys_and_headers
claim metadata_of_a_topic_shows_its_leader listing
claim metadata_of_the_cluster_shows_every_topic listing_all
claim offsets_are_found_by_time offsets_by_time
claim reading_starts_from_the_tail_and_from_an_offset the_last_ones
claim a_group_reads_on_where_it_stopped as_a_group
tally kcat

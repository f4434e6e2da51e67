# shellcheck shell=bash
# Installs stock clients from their registries into STOCK_BUILD, each once. To be sourced by bash.
STOCK_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
STOCK_BUILD=${CARGO_TARGET_DIR:-$(cd "$STOCK_DIR/../.." && pwd)/target}/clients

install_python() {
    local stamp=$STOCK_BUILD/python/installed
    [ "$stamp" -nt "$STOCK_DIR/python/requirements.txt" ] && return
    python3 -m venv "$STOCK_BUILD/python" &&
        "$STOCK_BUILD/python/bin/pip" install -q -r "$STOCK_DIR/python/requirements.txt" && touch "$stamp"
}

# Apache Kafka's tools and clients: their class path. With connect or streams, those too.
install_java() { # [PROFILE]
    local classpath=$STOCK_BUILD/kafka-${1:-tools}.classpath
    [ "$classpath" -nt "$STOCK_DIR/java/pom.xml" ] && return
    mkdir -p "$STOCK_BUILD" && mvn -q -B -Dstyle.color=never -f "$STOCK_DIR/java/pom.xml" ${1:+-P"$1"} \
        dependency:build-classpath -Dmdep.outputFile="$classpath"
}

install_kafkajs() {
    local there=$STOCK_BUILD/kafkajs
    [ "$there/installed" -nt "$STOCK_DIR/kafkajs/package.json" ] && return
    mkdir -p "$there" && cp "$STOCK_DIR/kafkajs/package.json" "$there/" &&
        npm install --silent --no-audit --no-fund --no-package-lock --prefix "$there" && touch "$there/installed"
}

install_go() { # NAME of a directory here
    (cd "$STOCK_DIR/$1" && go build -o "$STOCK_BUILD/$1" .)
}

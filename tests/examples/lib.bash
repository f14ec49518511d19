# SPDX-License-Identifier: MIT
# Functions that the tests of the examples share. Sourced; $1 of the caller is the build folder.

set -u
export LC_ALL=C
build=$(cd "$1" && pwd)
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tmp=$(mktemp -d)
pids=()

clean_up() {
	for pid in "${pids[@]}"; do
		kill -KILL "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null # otherwise the shell reports its end
	done
	rm -rf "$tmp"
}
trap clean_up EXIT

fail() {
	echo "FAILED: $*" >&2
	exit 1
}

# check_equal WHAT WANTED GOT
check_equal() {
	[ "$2" = "$3" ] || fail "$1: wanted \"$2\", got \"$3\""
}

# start PROGRAM [OPTION...]: on a free port, which is put into $port, and the process into $pid.
start() {
	: >"$tmp/out" # the output of the last server must not count
	"$@" >"$tmp/out" 2>"$tmp/err" &
	pid=$!
	pids+=("$pid")
	for _ in $(seq 500); do
		port=$(sed -n 's/.*listening on .*:\([0-9]*\)$/\1/p' "$tmp/out")
		[ -n "$port" ] && return
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.02
	done
	fail "$1 does not start: $(cat "$tmp/out" "$tmp/err")"
}

# start_on_free_port COMMAND...: a server that cannot choose a port itself; the word PORT stands for
# one, which is put into $port, and the process into $pid. A server that ends at once is started
# again on another port.
start_on_free_port() {
	for _ in $(seq 5); do
		port=$((20000 + RANDOM % 10000))
		"${@//PORT/$port}" >"$tmp/out" 2>"$tmp/err" &
		pid=$!
		pids+=("$pid")
		sleep 0.3 # a port that is taken ends the server in that time, or until_ready fails
		kill -0 "$pid" 2>/dev/null && return
	done
	fail "$1 does not start: $(cat "$tmp/out" "$tmp/err")"
}

# until_ready COMMAND...: again and again until it succeeds, for half a minute at most.
until_ready() {
	for _ in $(seq 300); do
		"$@" >/dev/null 2>&1 && return
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.1
	done
	fail "not ready: $*: $(cat "$tmp/out" "$tmp/err")"
}

# end SIGNAL: the process of the last start must end with 0, and soon.
end() {
	local status

	kill -"$1" "$pid"
	for _ in $(seq 1500); do
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.02
	done
	kill -0 "$pid" 2>/dev/null &&
		fail "$(cat "/proc/$pid/comm") does not end on SIG$1: $(
			grep -E '^(State|Sig|ShdPnd)' "/proc/$pid/status"
		)"
	wait "$pid"
	status=$?
	check_equal "status after SIG$1" 0 "$status"
	check_equal "errors" "" "$(cat "$tmp/err")"
}

# fails_at_deadline NAME PACKAGE ARGUMENT...: examples/NAME.c against a server that always sends,
# which keeps two CPUs busy: so it is compiled, with the library of PACKAGE, for a deadline of 3
# seconds instead of 10.  A busy machine may add to it.
fails_at_deadline() {
	local begun name=$1 package=$2

	shift 2
	sed 's/^#define TIMEOUT (10 \* GMP_S)/#define TIMEOUT (3 * GMP_S)/' \
		"$source_dir/examples/$name.c" >"$tmp/impatient.c"
	grep -q '^#define TIMEOUT (3 ' "$tmp/impatient.c" || fail "$name.c has no TIMEOUT of 10 s"
	# shellcheck disable=SC2046
	compile "$tmp/impatient" "$tmp/impatient.c" "$source_dir/examples/server.c" \
		"$build/libgmprt.a" $(pkg-config --cflags --libs "$package")
	begun=$SECONDS
	timeout 30 "$tmp/impatient" "$@" >"$tmp/got" 2>"$tmp/complaint"
	check_equal "status against a server that always sends" 1 $?
	[ $((SECONDS - begun)) -lt 25 ] || fail "the deadline does not hold: $((SECONDS - begun)) s"
	grep -q 'timed out' "$tmp/complaint" || fail "$(head -c 1000 "$tmp/complaint")"
}

# has_arch ARCH: whether kvserver has been built with it.
has_arch() {
	[ "$1" != reactor ] ||
		! "$build/examples/kvserver" --arch reactor --unix /nowhere/x 2>&1 |
		grep -q 'built without libuv'
}

# compile OUTPUT FILE...: with the sanitizer that the build has, and the library of a build that
# counts lines.
compile() {
	local output=$1
	local sanitize counts

	shift
	sanitize=$(sed -n 's/^GMP_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt" 2>/dev/null)
	counts=$(sed -n 's/^GMP_COVERAGE:[A-Z]*=ON/-lgcov/p' "$build/CMakeCache.txt" 2>/dev/null)
	${CC:-cc} -std=gnu11 -D_GNU_SOURCE -O1 -g -Wall -Wextra ${sanitize:+-fsanitize=$sanitize} \
		-I"$source_dir/include" -I"$source_dir/examples" -I"$source_dir/tests/harness" \
		-o "$output" "$@" $counts -pthread || fail "cannot compile $output"
}

# compile_client NAME: the client NAME.c of this folder, to $tmp/NAME.
compile_client() {
	local folder=$source_dir/tests/examples

	compile "$tmp/$1" "$folder/$1.c" "$folder/peer.c"
}

# start_postgres CONNECTIONS: a server without fsync; its conninfo goes into $where.
start_postgres() {
	local bin as_owner=()

	bin=$(dirname "$(compgen -G '/usr/lib/postgresql/*/bin/initdb' | tail -n 1)")
	[ -x "$bin/initdb" ] || { echo "PostgreSQL is missing"; exit 77; }
	if [ "$(id -u)" = 0 ]; then # the server refuses to run as root
		as_owner=(setpriv --reuid postgres --regid postgres --init-groups)
		chown postgres "$tmp"
	fi
	"${as_owner[@]}" "$bin/initdb" -D "$tmp/data" -A trust -U postgres --no-sync \
		>"$tmp/log" 2>&1 || fail "initdb: $(cat "$tmp/log")"
	start_on_free_port "${as_owner[@]}" "$bin/postgres" -D "$tmp/data" -p PORT \
		-c listen_addresses=127.0.0.1 -c unix_socket_directories="$tmp" \
		-c fsync=off -c max_connections="$1"
	where="hostaddr=127.0.0.1 port=$port user=postgres dbname=postgres"
}

# make_web_files: $tmp/www with files of 100 to 5000 bytes, named 1 to 50, and a large one.
make_web_files() {
	mkdir -p "$tmp/www"
	head -c 3000000 /dev/urandom >"$tmp/www/large"
	for i in $(seq 50); do
		head -c "$((i * 100))" /dev/zero >"$tmp/www/$i"
	done
	chmod -R a+rX "$tmp"
}

# fetches WANTED COMMAND...: the output with 1, 2 and 4 Ps.
fetches() {
	local wanted=$1 got

	shift
	for procs in 1 2 4; do
		got=$(GMP_PROCS=$procs timeout 60 "$@") || fail "status $?"
		check_equal "files with $procs Ps" "$wanted" "$got"
	done
}

# start_nginx FOLDER: serves the files of the folder on $port.
start_nginx() {
	for _ in 1 2 3 4 5; do
		port=$((20000 + RANDOM % 10000))
		cat >"$tmp/nginx.conf" <<END
daemon off; master_process off; pid $tmp/nginx.pid; error_log $tmp/nginx.log;
events {}
http { access_log off; client_body_temp_path $tmp/b; proxy_temp_path $tmp/p;
	fastcgi_temp_path $tmp/f; uwsgi_temp_path $tmp/u; scgi_temp_path $tmp/s;
	server { listen 127.0.0.1:$port; root $1; } }
END
		nginx -c "$tmp/nginx.conf" 2>"$tmp/err" &
		pid=$!
		pids+=("$pid")
		sleep 0.2
		kill -0 "$pid" 2>/dev/null && break
	done
	until_ready bash -c "exec 3<>/dev/tcp/127.0.0.1/$port"
}

# make_certificate: for localhost, $tmp/cert.pem with its key $tmp/key.pem.
make_certificate() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
		-keyout "$tmp/key.pem" -out "$tmp/cert.pem" \
		-days 1 -subj /CN=localhost -addext 'subjectAltName=DNS:localhost' 2>"$tmp/log" ||
		fail "$(cat "$tmp/log")"
}

/**
 * A Perl program for the run's sandbox, which keeps one stdio server and lets several commands talk to it: a command
 * of a sandbox gets its whole input at once, while a server reads and writes lines as long as the run lasts. Perl is
 * in every sandbox and starts in a few milliseconds.
 *
 * - `serve NAME SECONDS` starts the server in the background, in the home folder. Its stdin has fields that are
 *   separated by NUL: the number of words of the command, these words, and variables (`NAME=value`).
 * - `ask NAME ID` passes a line from stdin on to the server, and prints the server's lines until one contains the id.
 * - `send NAME` passes a line on. `cancel NAME ID` also ends the `ask` with this id; its line may be empty.
 * - `status NAME` prints `running` or how the server ended, then the end of its stderr.
 *
 * A line of the server that answers no waiting `ask` goes to the one that waits longest, or else to the next one. The
 * program and its server end after SECONDS, and when the socket is removed.
 */
export const STDIO_BRIDGE = String.raw`use strict;
use warnings;
use Socket qw(AF_UNIX SOCK_STREAM SOMAXCONN pack_sockaddr_un);
use Fcntl qw(F_GETFL F_SETFL F_SETFD O_NONBLOCK);
use Errno qw(EAGAIN EINTR);

use constant CHUNK => 256 * 1024;
use constant MAX_LINE => 8 * 1024 * 1024;      # of the server
use constant MAX_MESSAGE => 16 * 1024 * 1024;  # for the server
use constant MAX_KEPT => 64 * 1024;            # kept of stderr, and of lines without a reader
use constant BACKLOG => 1024 * 1024;           # of a client that does not read

my ($mode, $name, $argument) = @ARGV;
my ($folder) = $0 =~ m{^(.*)/};
chdir $folder or die "cannot enter $folder: $!\n";    # Paths of sockets are short.
$SIG{PIPE} = 'IGNORE';
$mode eq 'serve' ? serve($argument) : talk();

sub talk {
    socket(my $socket, AF_UNIX, SOCK_STREAM, 0) or exit 3;
    connect $socket, pack_sockaddr_un($name) or exit 3;
    my $message = join '', read_all(\*STDIN);
    write_all($socket, sprintf("%s %s %d\n", $mode, $argument // '-', length $message) . $message);
    while (sysread $socket, my $data, CHUNK) { write_all(\*STDOUT, $data) or last }
    exit 0;
}

sub read_all {
    my ($handle) = @_;
    my @parts;
    while (sysread $handle, my $data, CHUNK) { push @parts, $data }
    return @parts;
}

sub write_all {
    my ($handle, $data) = @_;
    my $done = 0;
    while ($done < length $data) {
        my $count = syswrite $handle, $data, length($data) - $done, $done;
        return if !$count;
        $done += $count;
    }
    return 1;
}

sub serve {
    my ($seconds) = @_;
    my ($words, @fields) = split /\0/, join('', read_all(\*STDIN)), -1;
    my @command = splice @fields, 0, $words;
    unlink $name;
    socket(my $door, AF_UNIX, SOCK_STREAM, 0) or die "cannot make a socket: $!\n";
    bind $door, pack_sockaddr_un($name) and listen $door, SOMAXCONN or die "cannot listen: $!\n";
    my $keeper = fork // die "cannot start a process: $!\n";
    exit 0 if $keeper;
    require POSIX;
    POSIX::setsid();
    open STDIN, '<', '/dev/null';
    open STDOUT, '>', '/dev/null';
    open STDERR, '>', '/dev/null';
    my $server = start_server(\@command, \@fields);
    keep($door, $server, time + $seconds);
    kill 'KILL', -$server->{pid};
    POSIX::_exit(0);
}

sub start_server {
    my ($command, $variables) = @_;
    pipe my $stdin, my $to or POSIX::_exit(1);
    pipe my $from, my $stdout or POSIX::_exit(1);
    pipe my $errors, my $stderr or POSIX::_exit(1);
    my $pid = fork // POSIX::_exit(1);
    if (!$pid) {
        setpgrp;
        open STDIN, '<&', $stdin;
        open STDOUT, '>&', $stdout;
        open STDERR, '>&', $stderr;
        $SIG{PIPE} = 'DEFAULT';
        for (@$variables) { my ($key, $value) = split /=/, $_, 2; $ENV{$key} = $value if defined $value }
        $ENV{PWD} = $ENV{HOME};
        no warnings 'exec';
        chdir $ENV{HOME} and exec { $command->[0] } @$command;
        syswrite STDERR, "cannot start $command->[0]: $!\n";
        POSIX::_exit(127);
    }
    setpgrp $pid, $pid;
    for ($to, $from, $errors) { fcntl $_, F_SETFL, fcntl($_, F_GETFL, 0) | O_NONBLOCK }
    return { pid => $pid, to => $to, from => $from, errors => $errors, sending => '', line => '', seen => 0, tail => '', kept => '' };
}

sub keep {
    my ($door, $server, $until) = @_;
    my @clients;    # in the order in which they came
    $SIG{CHLD} = sub { };
    fcntl $door, F_SETFL, fcntl($door, F_GETFL, 0) | O_NONBLOCK;
    while (time < $until && -S $name) {
        my ($readers, $writers) = ('', '');
        my $is_full = grep { length $_->{out} > BACKLOG } @clients;
        vec($readers, fileno $_, 1) = 1 for $door, map { $_->{socket} } @clients;
        if (!defined $server->{end}) {
            vec($readers, fileno $server->{from}, 1) = 1 if !$is_full;
            vec($readers, fileno $server->{errors}, 1) = 1 if $server->{errors};
            vec($writers, fileno $server->{to}, 1) = 1 if $server->{to} && length $server->{sending};
        }
        length $_->{out} and vec($writers, fileno $_->{socket}, 1) = 1 for @clients;
        next if select($readers, $writers, undef, 1) < 0 && !look($server, \@clients);
        if (!defined $server->{end}) {
            read_errors($server) if $server->{errors} && vec $readers, fileno $server->{errors}, 1;
            feed($server) if $server->{to} && vec $writers, fileno $server->{to}, 1;
            read_lines($server, \@clients) if vec $readers, fileno $server->{from}, 1;
        }
        look($server, \@clients);
        for my $client (@clients) {
            send_on($client) if vec $writers, fileno $client->{socket}, 1;
            hear($client, $server, \@clients) if !$client->{is_gone} && vec $readers, fileno $client->{socket}, 1;
        }
        if (vec $readers, fileno $door, 1 and accept my $socket, $door) {
            fcntl $socket, F_SETFL, fcntl($socket, F_GETFL, 0) | O_NONBLOCK;
            push @clients, { socket => $socket, in => '', out => '' };
        }
        # Each has got all that it will get: it waits neither for the server nor for its own output.
        @clients = grep { !$_->{is_gone} && !($_->{is_done} && !length $_->{out}) } @clients;
    }
}

# Notes that the server's process has ended. Returns whether it has.
sub look {
    my ($server, $clients) = @_;
    return 1 if defined $server->{end};
    return if waitpid($server->{pid}, 1) != $server->{pid};    # WNOHANG
    my $status = $?;
    $server->{how} = $status & 127 ? 'signal ' . ($status & 127) : 'exit ' . ($status >> 8);
    kill 'KILL', -$server->{pid};
    for (1 .. 64) { last unless read_lines($server, $clients) }
    finish($server, $clients, $server->{how});
    return 1;
}

sub finish {
    my ($server, $clients, $how) = @_;
    return if defined $server->{end};
    kill 'KILL', -$server->{pid};
    for (1 .. 64) { last unless $server->{errors} && read_errors($server) }
    $server->{end} = $how;
    delete @$server{qw(to line kept sending)};
    $_->{is_done} = 1 for grep { $_->{id} } @$clients;
}

sub read_errors {
    my ($server) = @_;
    my $count = sysread $server->{errors}, my $data, CHUNK;
    if (!$count) { delete $server->{errors} if defined $count; return }
    $server->{tail} .= $data;
    my $surplus = length($server->{tail}) - MAX_KEPT;
    substr $server->{tail}, 0, $surplus, '' if $surplus > 0;
    return 1;
}

sub feed {
    my ($server) = @_;
    my $count = syswrite $server->{to}, $server->{sending}, CHUNK;
    if ($count) { substr $server->{sending}, 0, $count, '' }
    elsif (!defined $count && $! != EAGAIN && $! != EINTR) { delete $server->{to}; $server->{sending} = '' }
}

# Returns whether there may be more.
sub read_lines {
    my ($server, $clients) = @_;
    return if defined $server->{end};
    my $count = sysread $server->{from}, my $data, CHUNK;
    if (!$count) {
        return if !defined $count || defined $server->{how};
        # A server that has closed its stdout can answer nothing more.
        select undef, undef, undef, 0.05;
        look($server, $clients) or finish($server, $clients, 'closed');
        return;
    }
    $server->{line} .= $data;
    my $begin = 0;
    while ((my $end = index $server->{line}, "\n", $server->{seen}) >= 0) {
        deliver($server, $clients, substr $server->{line}, $begin, $end + 1 - $begin);
        $server->{seen} = $begin = $end + 1;
    }
    substr $server->{line}, 0, $begin, '';
    $server->{seen} = length $server->{line};
    finish($server, $clients, 'long line') if $server->{seen} > MAX_LINE;
    return 1;
}

sub deliver {
    my ($server, $clients, $line) = @_;
    return if $line !~ /\S/;
    my @waiting = grep { $_->{id} && !$_->{is_done} && !$_->{is_gone} } @$clients;
    my ($asked) = grep { index($line, $_->{id}) >= 0 } @waiting;
    my $client = $asked // $waiting[0];
    if (!$client) {
        $server->{kept} .= $line if length($server->{kept}) + length($line) <= MAX_KEPT;
        return;
    }
    $client->{out} .= $line;
    $client->{is_done} = 1 if $asked;
    send_on($client);
}

sub send_on {
    my ($client) = @_;
    my $count = syswrite $client->{socket}, $client->{out};
    if (defined $count) { substr $client->{out}, 0, $count, '' }
    elsif ($! != EAGAIN && $! != EINTR) { $client->{is_gone} = 1 }
}

# Reads a client's request: a line with mode, id and length, and a message.
sub hear {
    my ($client, $server, $clients) = @_;
    my $count = sysread $client->{socket}, my $data, CHUNK;
    if (!$count) { $client->{is_gone} = 1 if defined $count || $! != EAGAIN && $! != EINTR; return }
    return if $client->{mode};
    $client->{in} .= $data;
    $client->{in} =~ /^(\w+) (\S+) (\d+)\n/ or return;
    my ($mode, $id, $length, $begin) = ($1, $2, $3, $+[0]);
    if ($length > MAX_MESSAGE) { $client->{is_gone} = 1; return }
    return if length($client->{in}) < $begin + $length;
    my $message = substr delete $client->{in}, $begin, $length;
    $client->{mode} = $mode;
    if ($mode eq 'status') {
        $client->{out} = ($server->{end} // 'running') . "\n" . $server->{tail};
        $client->{is_done} = 1;
        return send_on($client);
    }
    if ($mode eq 'cancel') { $_->{is_done} = 1 for grep { ($_->{id} // '') eq $id } @$clients }
    my $is_full = defined $server->{end} || length $server->{sending} > MAX_MESSAGE;
    if ($mode ne 'ask' || $is_full) { $client->{is_done} = 1 }
    else {
        $client->{id} = $id;
        $client->{out} = $server->{kept};
        $server->{kept} = '';
        send_on($client) if length $client->{out};
    }
    return if $is_full || !$server->{to} || !$length;
    $server->{sending} .= "$message\n";
    feed($server);
}
`;

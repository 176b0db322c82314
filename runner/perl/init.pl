#!/usr/bin/perl
# The platform's programs inside a sandbox. They are in Perl because every Debian has it and it can make system calls.
#
#   init       One per sandbox, process 1. Starts commands, and forwards proxied connections out and connections to
#              services in. It drops all privileges before untrusted code runs.
#              It also watches one command: gives it real pipes, reports its exit, kills its process tree.
#              Before the first command it may keep an interpreter ready, which a program then runs in.
#   supervisor A fork of init that watches one further command over its own connection, while processes of another
#              command remain.
#
# Forked by launcher.pl, or started as bubblewrap's command.
#
# Every channel is a connection to the host's Unix socket (host-socket.ts). A process dials it and sends the greeting
# "<kind> <token>" as a line. Requests are records: a 32-bit length, then fields joined by NUL. Responses are frames: a
# letter, a 32-bit length, data (frames.ts). Lengths are big-endian.
use strict;
use warnings;
use Config;

# System call numbers. audit is AUDIT_ARCH_* as seccomp sees it.
my %ARCHITECTURES = (
    x86_64 => {
        audit => 0xC000003E, unshare => 272, mount => 165, umount2 => 166, pivot_root => 155, prctl => 157, capset => 126,
        setgroups => 116, setresuid => 117, setresgid => 119, sethostname => 170, prlimit64 => 302, dup3 => 292, setsid => 112,
        statfs => 137, setxattr => 188, sendmsg => 46, recvmsg => 47, keyctl => 250, socket => 41, socketpair => 53, clone => 56, ioctl => 16, fcntl => 72, close => 3,
        exit_group => 231, clock_gettime => 228, execve => 59,
        # The filter denies these; no code here calls them.
        add_key => 248, request_key => 249, ptrace => 101, process_vm_readv => 310, process_vm_writev => 311, setns => 308,
        bpf => 321, perf_event_open => 298, userfaultfd => 323, kexec_load => 246, kexec_file_load => 320, init_module => 175,
        msgget => 68, semget => 64, mq_open => 240, vmsplice => 278,
        finit_module => 313, delete_module => 176, swapon => 167, swapoff => 168, reboot => 169, acct => 163, syslog => 103,
        quotactl => 179, open_by_handle_at => 304, name_to_handle_at => 303, settimeofday => 164, clock_settime => 227,
        clock_adjtime => 305, adjtimex => 159, memfd_create => 319, shmget => 29, lookup_dcookie => 212, iopl => 172, ioperm => 173,
        kcmp => 312,
    },
    aarch64 => {
        audit => 0xC00000B7, unshare => 97, mount => 40, umount2 => 39, pivot_root => 41, prctl => 167, capset => 91,
        setgroups => 159, setresuid => 147, setresgid => 149, sethostname => 161, prlimit64 => 261, dup3 => 24, setsid => 157,
        statfs => 43, setxattr => 5, sendmsg => 211, recvmsg => 212, keyctl => 219, socket => 198, socketpair => 199, clone => 220, ioctl => 29, fcntl => 25, close => 57,
        exit_group => 94, clock_gettime => 113, execve => 221,
        add_key => 217, request_key => 218, ptrace => 117, process_vm_readv => 270, process_vm_writev => 271, setns => 268,
        bpf => 280, perf_event_open => 241, userfaultfd => 282, kexec_load => 104, kexec_file_load => 294, init_module => 105,
        msgget => 186, semget => 190, mq_open => 180, vmsplice => 75,
        finit_module => 273, delete_module => 106, swapon => 224, swapoff => 225, reboot => 142, acct => 89, syslog => 116,
        quotactl => 60, open_by_handle_at => 265, name_to_handle_at => 264, settimeofday => 170, clock_settime => 112,
        clock_adjtime => 266, adjtimex => 171, memfd_create => 279, shmget => 194, lookup_dcookie => 18, kcmp => 272,
    },
);
# Since Linux 5.1 a new call has the same number on all architectures. These are io_uring_*, open_tree .. fspick,
# mount_setattr and memfd_secret.
my @NEW_DENIED = (425 .. 427, 428 .. 433, 442, 447);
our ($PIDFD_SEND_SIGNAL, $OPEN_TREE, $MOVE_MOUNT, $PIDFD_OPEN, $CLONE3, $CLOSE_RANGE, $MOUNT_SETATTR) =
    (424, 428, 429, 434, 435, 436, 442);

my ($architecture) = $Config{archname} =~ /^(x86_64|aarch64)/ or die "the sandbox knows x86_64 and aarch64 only\n";
our $SYS = $ARCHITECTURES{$architecture};

# Dies if the call fails. Passes copies of its arguments, because syscall() needs writable strings; use syscall() itself
# for a call that returns data in its arguments.
sub sys {
    my ($name, @arguments) = @_;
    my $result = syscall($name =~ /^\d+$/ ? 0 + $name : $SYS->{$name}, @arguments);
    die "$name failed: $!\n" if $result == -1;
    return $result;
}

use constant {
    PR_SET_DUMPABLE => 4, PR_SET_SECCOMP => 22, PR_SET_CHILD_SUBREAPER => 36, PR_SET_NO_NEW_PRIVS => 38,
    ANY_NEW_NAMESPACE => 0x7E020000,
    O_NONBLOCK => 2048, F_SETFD => 2, F_GETFL => 3, F_SETFL => 4, WNOHANG => 1, EAGAIN => 11, EINTR => 4, EINPROGRESS => 115,
    MAX_PROXIED => 200, CHUNK => 65536, BACKLOG_BYTES => 1 << 20, MAX_PIPE_BYTES => 1 << 20,
    AF_INET => 2, AF_INET6 => 10, SOL_SOCKET => 1, SO_REUSEADDR => 2, SO_ERROR => 4, IPPROTO_TCP => 6, TCP_SYNCNT => 7,
    STANDBY_SECONDS => 60, STANDBY_READY_SECONDS => 1,
    STDERR_HEAD_BYTES => 1 << 20, STDERR_TAIL_BYTES => 65536, LOG_BYTES_A_SECOND => 1 << 20, LOG_BURST_BYTES => 1 << 22,
};

# --- small helpers ---------------------------------------------------------------------------------------------------

sub nonblocking { my ($handle) = @_; fcntl $handle, F_SETFL, fcntl($handle, F_GETFL, 0) | O_NONBLOCK; return $handle }

# Removes the first complete record from $$buffer. Returns its fields, or nothing.
sub take_record {
    my ($buffer) = @_;
    return if length $$buffer < 4;
    my $length = unpack 'N', $$buffer;
    return if length $$buffer < 4 + $length;
    my $record = substr $$buffer, 4, $length;
    substr $$buffer, 0, 4 + $length, '';
    return split /\0/, $record, -1;
}

sub write_all {
    my ($handle, $data) = @_;
    my $offset = 0;
    while ($offset < length $data) {
        my $count = syswrite $handle, $data, length($data) - $offset, $offset;
        if (defined $count) { $offset += $count }
        elsif ($! == EAGAIN) { wait_for([], [$handle]) }
        elsif ($! != EINTR)  { return }
    }
    return 1;
}

# Connects to the platform. $host_socket is an open descriptor of the socket file, because no path leads out of the
# sandbox.
sub dial {
    my ($host_socket, $greeting) = @_;
    socket my $socket, 1, 1, 0 or die "socket: $!\n";
    my $address = pack 'S a108', 1, "/proc/self/fd/$host_socket";
    until (connect $socket, $address) { $! == EINTR or die "cannot reach the platform: $!\n" }
    write_all($socket, "$greeting\n");
    return $socket;
}

# select() over lists of handles. Returns the sets of ready descriptors.
sub wait_for {
    my ($readers, $writers, $timeout) = @_;
    my ($read, $write) = ('', '');
    vec($read, fileno $_, 1) = 1 for @$readers;
    vec($write, fileno $_, 1) = 1 for @$writers;
    my $count = select $read, $write, undef, $timeout;
    return $count > 0 ? ($read, $write) : ('', '');
}

# Ends the process at once. Perl's own exit first frees the copied interpreter, which takes several times as long as a
# fork.
sub leave { my ($code) = @_; syscall $SYS->{exit_group}, $code }

# Returns a monotonic time in seconds.
sub now {
    my $time = "\0" x 16;
    syscall $SYS->{clock_gettime}, 1, $time;    # CLOCK_MONOTONIC
    my ($seconds, $nanoseconds) = unpack 'q2', $time;
    return $seconds + $nanoseconds / 1e9;
}

sub min { my ($one, $other) = @_; return $one < $other ? $one : $other }

sub is_in { my ($set, $handle) = @_; return vec $set, fileno $handle, 1 }

# Returns the numbers of the open descriptors above 2.
sub open_descriptors {
    opendir my $folder, '/proc/self/fd' or die "cannot list the open descriptors: $!\n";
    return grep { /^\d+$/ && $_ > 2 && $_ != fileno $folder } readdir $folder;
}

# Closes every descriptor above 2 except @keep, including those that Perl does not know. Perl counts the handles of each
# number, so a number that it knows and opens again afterwards would never be closed. Call this before opening others,
# or last.
sub close_all_but {
    my (@keep) = sort { $a <=> $b } @_;
    my $first = 3;
    my $is_closed = 1;
    for my $kept (@keep, 1 << 32) {
        $is_closed &&= $first >= $kept || syscall($CLOSE_RANGE, $first, $kept - 1, 0) == 0;
        $first = $kept + 1;
    }
    return if $is_closed;
    # A container engine may forbid the call.
    my %keep = map { $_ => 1 } @keep;
    syscall $SYS->{close}, 0 + $_ for grep { !$keep{$_} } open_descriptors();
}

# Copies the content of a folder into another one, which becomes the working folder where the kernel cannot show the
# first one writable.
sub copy_folder {
    my ($from, $to) = @_;
    my @cp = ('cp', '-R', '--no-dereference', '--preserve=mode,timestamps', "$from/.", $to);
    system({ -x '/bin/cp' ? '/bin/cp' : '/usr/bin/cp' } @cp) == 0 or die "the bundle cannot be copied into the sandbox\n";
}

# Dies unless this is process 1 of a pid namespace other than $outer, the launcher's.
sub check_is_process_1 {
    my ($outer) = @_;
    my $own = readlink('/proc/self/ns/pid') // die "init cannot see its pid namespace: $!\n";
    die "init is process $$ of $own, and the launcher is in $outer: it starts and kills nothing\n" if $$ != 1 || $own eq $outer;
}

# Kills every process of the sandbox. Called outside a sandbox, it would kill the host's processes.
sub kill_all { my ($outer) = @_; check_is_process_1($outer); kill 'KILL', -1 }

# Denies interfaces that an unprivileged process in its own namespaces could use and that agents do not need: kernel
# interfaces with a history of vulnerabilities, memory outside of all limits (memfd, SysV, message queues, pages spliced
# into a pipe), and address families that ignore network namespaces (a virtual machine's vsock reaches its host).
sub seccomp_filter {
    my ($has_network) = @_;
    my $EPERM = 0x00050001;
    my ($ENOSYS, $EAFNOSUPPORT, $DONE, $ALLOW) = (0x00050000 | 38, 0x00050000 | 97, 0x00050000, 0x7FFF0000);
    my ($LOAD, $EQUAL, $AT_LEAST, $ANY_BIT, $JUMP, $RETURN) = (0x20, 0x15, 0x35, 0x45, 0x05, 0x06);
    my @program;
    my $add = sub { push @program, pack 'S C C L', @_ };
    my $load = sub { $add->($LOAD, 0, 0, $_[0]) };
    my $return = sub { $add->($RETURN, 0, 0, $_[0]) };

    $load->(4);    # architecture
    $add->($EQUAL, 1, 0, $SYS->{audit});
    $return->($ENOSYS);
    $load->(0);    # number; x32 calls have bit 30 set
    $add->($AT_LEAST, 0, 1, 0x40000000);
    $return->($ENOSYS);
    my %used = map { $_ => 1 } qw(audit prctl capset setgroups setresuid setresgid sethostname prlimit64 dup3 setsid statfs setxattr sendmsg recvmsg socket socketpair clone ioctl fcntl close exit_group clock_gettime execve);
    # Blocks of ascending numbers, of which only one is searched: when a filter is set, the kernel runs it for every
    # system call number.
    my @denied = sort { $a <=> $b } (map { $SYS->{$_} } grep { !$used{$_} } keys %$SYS), @NEW_DENIED;
    while (my @block = splice @denied, 0, 8) {
        $add->($AT_LEAST, 1 + 2 * @block, 0, $block[-1] + 1);
        for my $number (@block) {
            $add->($EQUAL, 0, 1, $number);
            $return->($EPERM);
        }
        my $others = int((@denied + 7) / 8);
        $add->($JUMP, 0, 0, 2 * $others + 2 * @denied);
    }
    $add->($EQUAL, 0, 1, $CLONE3);    # A filter cannot read clone3's flags, which lie in memory. C libraries fall back to clone.
    $return->($ENOSYS);
    $add->($EQUAL, 0, 4, $SYS->{clone});
    $load->(16);
    $add->($ANY_BIT, 0, 1, ANY_NEW_NAMESPACE);
    $return->($EPERM);
    $return->($ALLOW);
    # Node makes its output pipes non-blocking, and child programs that write to them would fail with EAGAIN. For
    # descriptors 1 and 2 the call reports success without any effect (docs/interface/sandbox.md#program-protocol).
    my $unless_output = sub { $load->(16); $add->($EQUAL, 1, 0, 1); $add->($EQUAL, 0, 1, 2); $return->($DONE); $return->($ALLOW) };
    $add->($EQUAL, 0, 10, $SYS->{ioctl});
    $load->(24);
    $add->($EQUAL, 2, 0, 0x5412);     # TIOCSTI
    $add->($EQUAL, 1, 0, 0x541C);     # TIOCLINUX
    $add->($EQUAL, 1, 5, 0x5421);     # FIONBIO
    $return->($EPERM);
    $unless_output->();
    $add->($EQUAL, 0, 9, $SYS->{fcntl});
    $load->(24);
    $add->($EQUAL, 0, 6, F_SETFL);
    $load->(32);
    $add->($ANY_BIT, 0, 4, O_NONBLOCK);
    $unless_output->();
    $add->($EQUAL, 0, 4, $SYS->{socketpair});
    $load->(16);
    $add->($EQUAL, 1, 0, 1);          # AF_UNIX
    $return->($EAFNOSUPPORT);
    $return->($ALLOW);
    $add->($EQUAL, 1, 0, $SYS->{socket});
    $return->($ALLOW);
    # AF_UNIX; AF_INET and AF_INET6 with TCP and UDP, whose buffers the watcher counts; AF_NETLINK with NETLINK_ROUTE,
    # for getifaddrs.
    my %protocols = (1 => [ 0, 1 ], 16 => [0], $has_network ? (2 => [ 0, 6, 17 ], 10 => [ 0, 6, 17 ]) : ());
    for my $family (sort { $a <=> $b } keys %protocols) {
        my @allowed = @{ $protocols{$family} };
        $load->(16);
        $add->($EQUAL, 0, @allowed + 3, $family);
        $load->(32);
        $add->($EQUAL, @allowed - $_, 0, $allowed[$_]) for 0 .. $#allowed;
        $return->($EAFNOSUPPORT);
        $return->($ALLOW);
    }
    $return->($EAFNOSUPPORT);
    return join '', @program;
}

# Kinds of commands that run in init's own program.
my $FILE_OPERATION = qr/^(?:write|read|list|tree)$/;

# Built once for all sandboxes that the launcher forks.
my $FILTER = seccomp_filter(1);

# --- init: process 1 inside ------------------------------------------------------------------------------------------

# $outer: the launcher's pid namespace, or undef if the container around the runner is the sandbox.
sub run_init {
    my ($host_socket, $token, $ports, $outer, $entrance) = @_;
    my $is_container = !defined $outer;
    $0 = 'init';
    my $filter = $FILTER;
    if ($is_container) {
        # The runner is process 1, so init must adopt orphans itself to find them again. The container engine may forbid
        # keyrings altogether. The container has a network, so the filter denies sockets to a sandbox without network.
        sys('prctl', PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        syscall $SYS->{keyctl}, 1, 0;
        $filter = seccomp_filter(length $ports);
    }
    else { sys('keyctl', 1, 0) }    # A new session keyring: otherwise init inherits the platform's.
    sys('prctl', PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    sys('prctl', PR_SET_SECCOMP, 2, pack('S x6 P', length($filter) / 8, $filter), 0, 0);
    $SIG{PIPE} = 'IGNORE';
    $SIG{CHLD} = sub { };    # Ends a wait, so that ended children are collected at once.

    my @listeners;    # { socket, kind }
    for (split /,/, $ports) {
        my ($kind, $port, $address) = split /=/;
        socket my $socket, 2, 1, 0 or die "socket: $!\n";
        # In a container, connections of the previous sandbox may still be closing.
        setsockopt $socket, SOL_SOCKET, SO_REUSEADDR, 1;
        bind $socket, pack 'S n C4 x8', 2, $port, split(/\./, $address // '127.0.0.1') or die "cannot listen on port $port: $!\n";
        listen $socket, 128;
        push @listeners, { socket => $socket, kind => $kind };
    }
    # The control connection carries requests and the output of init's own command: a separate connection would cost
    # both ends as much as the rest of a short command.
    my $control = nonblocking(dial($host_socket, "init $token"));
    my $requests = '';
    my @pumps;    # { from, to, data, ended, closed, back }: one direction of a proxied connection; back is the other one.
    my $pump = sub {
        my ($one, $other) = @_;
        nonblocking($_) for $one, $other;
        my $there = { from => $one, to => $other, data => '' };
        my $back = { from => $other, to => $one, data => '', back => $there };
        $there->{back} = $back;
        push @pumps, $there, $back;
    };
    my @dialing;    # { name, port, family, socket }: connections to a port inside that are being made.
    my $command;    # Init's own one, to which every process belongs that is not below a supervisor.
    my %supervisors;
    my $standby;    # The interpreter that waits for its program (stand_by). Until then only file operations run here.
    # Reaps ended children. Returns whether none is left.
    my $collect = sub {
        my $pid;
        while (($pid = waitpid -1, WNOHANG) > 0) {
            delete $supervisors{$pid};
            $command->{status} = $? if $command && $pid == $command->{main};
            undef $standby if $standby && $pid == $standby->{main};
        }
        return $pid < 0;
    };
    my $end_standby = sub {
        kill 'KILL', $standby->{main};
        waitpid $standby->{main}, 0;
        undef $standby;
    };

    while (1) {
        $collect->();
        undef $command if $command && !goes_on($command, \%supervisors);
        my @readers = ($control, map { $_->{from} } grep { !$_->{ended} && !length $_->{data} } @pumps);
        push @readers, map { $_->{socket} } @listeners if @pumps < 2 * MAX_PROXIED;
        my @writers = ((map { $_->{to} } grep { length $_->{data} } @pumps), map { $_->{socket} } @dialing);
        if ($command) { my ($in, $out) = handles_of($command); push @readers, @$in; push @writers, @$out }
        my ($readable, $writable) = wait_for(\@readers, \@writers, $standby && $standby->{until} - now());
        $end_standby->() if $standby && now() >= $standby->{until};

        undef $command if $command && !attend($command, $readable, $writable, \%supervisors);

        if (is_in($readable, $control)) {
            my $count = sysread $control, $requests, CHUNK, length $requests;
            leave(0) if defined $count ? !$count : $! != EINTR && $! != EAGAIN;    # The platform is gone. The sandbox ends with process 1.
            while (my ($request, @fields) = take_record(\$requests)) {
                if ($request eq 'killall') { $is_container ? kill_tree() : kill_all($outer) }
                elsif ($request eq 'pause')  { stop_tree(\%supervisors) }
                elsif ($request eq 'resume') { kill 'CONT', descendants(\%supervisors) }
                elsif ($request eq 'connect') {
                    my ($name, $port) = @fields;
                    my $dialed = { name => $name, port => $port, family => AF_INET };
                    if (dial_inside($dialed)) { push @dialing, $dialed }
                    else                      { refuse($host_socket, $name) }
                }
                elsif ($request eq 'order') {
                    my ($of, $order) = @fields;
                    obey($command, $order, \%supervisors) if $command && $command->{token} eq $of && $command->{main_end};
                }
                elsif ($request eq 'standby') {
                    hide_from_commands();
                    $standby //= eval { stand_by($entrance, @fields) };
                }
                elsif ($request eq 'exec') {
                    hide_from_commands();
                    my $has_no_child = $collect->();
                    my $ready;
                    if ($standby && $fields[3] !~ $FILE_OPERATION) {
                        if (!$command && fits($standby, @fields)) { $ready = $standby; undef $standby }
                        else                                      { $end_standby->(); $has_no_child = $collect->() }
                    }
                    # If init has no other child, all later descendants of init belong to this command.
                    if (!$command && ($ready || $standby || $has_no_child)) {
                        $command = eval { begin_command($host_socket, $control, $entrance, $ready, @fields) };
                        next;
                    }
                    my $pid = fork;
                    if ($pid) { $supervisors{$pid} = 1; next }
                    if (defined $pid) {
                        close $_ for $control, (map { $_->{socket} } @listeners, @dialing), map { $_->{from} } @pumps;
                        undef $command;
                        supervise($host_socket, undef, $entrance, undef, @fields);
                        leave(0);
                    }
                    eval { refuse_command(dial($host_socket, "exec $fields[0]")) };
                }
            }
        }
        for my $pump (@pumps) {
            if (length $pump->{data} && is_in($writable, $pump->{to})) {
                my $count = syswrite $pump->{to}, $pump->{data};
                if (defined $count) { substr $pump->{data}, 0, $count, '' }
                elsif ($! != EAGAIN && $! != EINTR) { @$pump{qw(data ended)} = ('', 1); shutdown $pump->{from}, 0 }
            }
            elsif (!$pump->{ended} && !length $pump->{data} && is_in($readable, $pump->{from})) {
                my $count = sysread $pump->{from}, $pump->{data}, CHUNK;
                $pump->{ended} = 1 if defined $count ? !$count : $! != EAGAIN && $! != EINTR;
            }
            if ($pump->{ended} && !length $pump->{data} && !$pump->{closed}) { shutdown $pump->{to}, 1; $pump->{closed} = 1 }
        }
        # Remove a connection when both its directions are closed.
        @pumps = grep { !($_->{closed} && $_->{back}{closed}) || do { delete $_->{back}; 0 } } @pumps
            if grep { $_->{closed} } @pumps;
        for my $listener (@listeners) {
            next unless is_in($readable, $listener->{socket}) && accept my $inner, $listener->{socket};
            my $outer = eval { dial($host_socket, "$listener->{kind} $token") } or next;
            $pump->($inner, $outer);
        }
        for my $dialed (splice @dialing) {
            if (!is_in($writable, $dialed->{socket})) { push @dialing, $dialed; next }
            if (unpack 'i', getsockopt $dialed->{socket}, SOL_SOCKET, SO_ERROR) {
                if (dial_inside($dialed)) { push @dialing, $dialed }
                else                      { refuse($host_socket, $dialed->{name}) }
            }
            else {
                my $outer = eval { dial($host_socket, "inbound $dialed->{name}") } or next;
                $pump->($dialed->{socket}, $outer);
            }
        }
    }
}

# Commands have init's uid and could otherwise read and trace it. Not called earlier, because the launcher must first open
# init's /proc entries.
sub hide_from_commands { sys('prctl', PR_SET_DUMPABLE, 0, 0, 0, 0) }

# Starts a connection to a program of this sandbox, at 127.0.0.1 and then at ::1. Returns nothing if both refuse. Never
# blocks: a program that does not accept must not stop init.
sub dial_inside {
    my ($dialed) = @_;
    while (my $family = delete $dialed->{family}) {
        $dialed->{family} = AF_INET6 if $family == AF_INET;
        socket my $socket, $family, 1, 0 or next;
        nonblocking($socket);
        setsockopt $socket, IPPROTO_TCP, TCP_SYNCNT, 2;    # An attempt ends within ten seconds.
        my $address = $family == AF_INET ? pack('S n a4 x8', $family, $dialed->{port}, "\x7f\0\0\1") : pack('S n N a16 N', $family, $dialed->{port}, 0, "\0" x 15 . "\1", 0);
        next unless connect($socket, $address) || $! == EINPROGRESS;
        $dialed->{socket} = $socket;
        return 1;
    }
    return;
}

sub refuse { my ($host_socket, $name) = @_; eval { dial($host_socket, "refused $name") } }

# --- commands ------------------------------------------------------------------------------------------------------

sub frame { my ($type, $data) = @_; return pack('a N', $type, length $data) . $data }

sub refuse_command { my ($output, $beginning) = @_; write_all($output, ($beginning // '') . frame('f', "cannot start a process: $!")) }

# Returns the descendants of this process, except $others and their descendants.
sub descendants {
    my ($others) = @_;
    my (%children, @found);
    opendir my $folder, '/proc' or return;
    for my $pid (grep { /^\d+$/ && !$others->{$_} } readdir $folder) {
        open my $file, '<', "/proc/$pid/stat" or next;
        my $stat = <$file> // next;
        push @{ $children{$1} }, $pid if $stat =~ /.*\) \S+ (\d+)/s;
    }
    my @queue = $$;
    while (@queue) { my @next = @{ $children{ shift @queue } // [] }; push @queue, @next; push @found, @next }
    return @found;
}

# Stops all processes of a command and returns them: a stopped process cannot fork and still counts against the process
# limit, so the search terminates. $others: supervisors of other commands, { pid => 1 }.
sub stop_tree {
    my ($others) = @_;
    my %stopped;
    while (my @new = grep { !$stopped{$_}++ } descendants($others)) { kill 'STOP', @new }
    return keys %stopped;
}

sub kill_tree { my ($others) = @_; kill 'KILL', stop_tree($others) }

# Removes the part of $$data that fits into $room and returns it. Cuts at a line end if $$data has one, because a
# partial secret could not be masked.
sub take_head {
    my ($data, $room) = @_;
    return substr $$data, 0, length $$data, '' if length $$data < $room;
    return substr $$data, 0, 1 + rindex($$data, "\n", $room - 1) || 1 + index($$data, "\n", $room) || $room, '';
}

# Returns the retained end of $tail, preceded by a note about all omitted bytes: $left_out before it, plus those cut
# here.
sub noted_tail {
    my ($tail, $left_out) = @_;
    return $tail if !$left_out && length $tail <= STDERR_TAIL_BYTES;
    my $kept = substr $tail, -min(length $tail, STDERR_TAIL_BYTES);
    my $line = 1 + index $kept, "\n";
    $kept = substr $kept, $line if $line < length $kept;
    $left_out += length($tail) - length $kept;
    return "\n[... $left_out bytes left out ...]\n$kept";
}

# Returns the part of a service's log to send: whole lines, with a limit of bytes per second. A program that writes more
# is never stopped or slowed.
sub log_part {
    my ($log, $data) = @_;
    my $now = time;
    $log->{room} = min(LOG_BURST_BYTES, $log->{room} + ($now - $log->{at}) * LOG_BYTES_A_SECOND);
    $log->{at} = $now;
    my $note = '';
    if ($log->{left_out}) {
        # Resumes at the beginning of a line, once a second's worth of bytes may be sent.
        my $line = $log->{room} < LOG_BYTES_A_SECOND ? 0 : 1 + index $data, "\n";
        $log->{left_out} += $line || length $data;
        return '' if !$line;
        $data = substr $data, $line;
        $note = "[... $log->{left_out} bytes left out: a service may log 1 MB a second ...]\n";
        # A long line may have been cut, and would otherwise continue with the note.
        $note = "\n$note" if $log->{is_cut};
        $log->{left_out} = 0;
    }
    my $part = take_head(\$data, $log->{room});
    $log->{room} -= min($log->{room}, length $part);
    $log->{left_out} = length $data;
    $log->{is_cut} = substr($part, -1) ne "\n" if length $part;
    return $note . $part;
}

# Starts a command and returns its state, or nothing if its process cannot be created. $control: init's connection if
# init watches the command; its frames there start with one that has its token, and orders arrive as requests. Otherwise
# the command has its own connection, where orders are single letters. $entrance: the descriptor through which it enters
# its cgroup. $standby: the interpreter for this program, if one waits. Fields: token, stdin ("" for none, "dial" for a
# separate connection, "=..." for inline text, which fits into a pipe), limits (comma list: cpu, file, processes, memory),
# kind, cwd, argument, NAME=value ...
sub begin_command {
    my ($host_socket, $control, $entrance, $standby, $token, $given, $limits, $kind, $cwd, $argument, @environment) = @_;
    my $output = $control // dial($host_socket, "exec $token");
    my $beginning = $control ? frame('s', $token) : '';
    my $input = $given eq 'dial' ? dial($host_socket, "stdin $token") : undef;
    my $process = $standby // fork_with_pipes($entrance, length $given, sub {
        close_all_but();    # A file operation starts no program, so no exec would close them.
        set_limits(0, $limits);
        run_command($kind, $cwd, $argument, @environment);
    });
    if (!$process) { refuse_command($output, $beginning); return }
    my ($main, $stdin_writer, $stdout, $stderr) = @$process{qw(main stdin stdout stderr)};
    if (length $given && !$input) { syswrite $stdin_writer, substr $given, 1; undef $stdin_writer }
    if ($standby) { set_limits($main, $limits); give_orders($standby) }
    nonblocking($_) for $output, $stdout, $stderr, $input ? ($input, $stdin_writer) : ();
    open my $main_end, '<&=', sys($PIDFD_OPEN, $main, 0) or die;    # Readable when the command has ended.
    return {
        token => $token, kind => $kind, main => $main, main_end => $main_end, input => $input, stdin => $stdin_writer,
        output => $output, orders => $control ? undef : $output, beginning => $beginning,
        streams => { o => $stdout, e => $stderr }, sending => '', feed => '',
        # stderr never ends a command. Only its head and its tail are sent.
        room => STDERR_HEAD_BYTES, tail => '', left_out => 0,
        logs => { map { $_ => { room => LOG_BURST_BYTES, at => time, left_out => 0 } } qw(o e) },
    };
}

# Forks a process in its own session, with pipes for its output, and for its input if it gets any. $work runs in it and
# must not return. Returns { main, stdin, stdout, stderr }, or nothing if no process can be started.
sub fork_with_pipes {
    my ($entrance, $gets_input, $work) = @_;
    my ($stdin, $stdin_writer);
    if ($gets_input) { pipe $stdin, $stdin_writer or die }
    else             { open $stdin, '<', '/dev/null' or die }
    pipe my $stdout, my $stdout_writer or die;
    pipe my $stderr, my $stderr_writer or die;
    my $main = fork // return;
    return { main => $main, stdin => $stdin_writer, stdout => $stdout, stderr => $stderr } if $main;
    $SIG{PIPE} = 'DEFAULT';
    sys('setsid');
    if ($entrance) { open my $group, '>&=', $entrance or die; syswrite $group, 0 or leave(126) }
    sys('dup3', fileno $stdin, 0, 0);
    sys('dup3', fileno $stdout_writer, 1, 0);
    sys('dup3', fileno $stderr_writer, 2, 0);
    $work->();
}

# $pid: as of prlimit(2). $limits: as of begin_command.
sub set_limits {
    my ($pid, $limits) = @_;
    my ($cpu, $file, $processes, $memory) = split /,/, $limits;
    my $set = sub { my ($which, $soft, $hard) = @_; sys('prlimit64', $pid, $which, pack('Q2', $soft, $hard // $soft), 0) };
    $set->(0, $cpu, $cpu + 1); # CPU: SIGXCPU, a second later SIGKILL
    $set->(1, $file);
    $set->(2, $memory + (8 << 30)); # DATA: V8 reserves a gigabyte, Bun six. The launcher counts the memory in use.
    $set->(4, 0);              # CORE
    $set->(6, $processes);     # NPROC
    $set->(7, 1024);           # NOFILE
    $set->(12, 0);             # MSGQUEUE
}

# --- an interpreter that waits ------------------------------------------------------------------------------------------

# A program of Python that is likely to come next. Options are left out: with -S, Python would not wait.
my $STANDS_BY = qr{\Apython3? (?:-u )?\w[\w./-]*(?: |\z)};

# Variables that the interpreter, its loader or its C library reads before it runs a program.
my $READ_AT_START = qr/^(?:PYTHON|LC_|LANG|LD_|GLIBC_|GCONV_|LOCPATH|NLSPATH|MALLOC_|TZ|PATH=|HOME=)/;

# Starts the interpreter of a program before the program is called, with nothing of the call: Python does everything that
# it does before it looks for the program, then waits for orders (STANDBY in host-runtime.ts). Its command line, pipes,
# session and cgroup are those of the program, which later is found by Python itself. It is used once, or killed.
sub stand_by {
    my ($entrance, $command, $cwd, @environment) = @_;
    return if $command !~ $STANDS_BY || !-e '/runtime/standby.py';
    socketpair my $orders, my $inner, 1, 1, 0 or die;
    my $process = fork_with_pipes($entrance, 1, sub {
        fcntl $inner, F_SETFD, 0;
        close_all_but(fileno $inner);
        chdir $cwd or leave(127);
        run_without_shell($command, @environment, join ' ', 'PLATFORM_STANDBY=' . fileno($inner), (stat $inner)[1]);
        leave(127);
    }) or return;
    return { %$process, orders => $orders, command => $command, cwd => $cwd, read => join("\0", read_at_start(@environment)), until => now() + STANDBY_SECONDS };
}

sub read_at_start { return sort grep { $_ =~ $READ_AT_START } @_ }

# Returns whether the interpreter would run this command as one that is started now, and is ready.
sub fits {
    my ($standby, undef, $given, undef, $kind, $cwd, $argument, @environment) = @_;
    return if $kind ne 'sh' || !length $given || $argument ne $standby->{command} || $cwd ne $standby->{cwd};
    return if $standby->{read} ne join "\0", read_at_start(@environment);
    return if -e '/home/user/.local';    # Packages of the user, which Python has already looked for.
    my (undef, undef, @variables) = program_of($argument, variables_in($cwd, @environment)) or return;
    $standby->{variables} = \@variables;
    my ($readable) = wait_for([ $standby->{orders} ], [], STANDBY_READY_SECONDS);
    return is_in($readable, $standby->{orders}) && sysread $standby->{orders}, my $ready, 1;
}

# Lets the program of the command that fits run.
sub give_orders {
    my ($standby) = @_;
    write_all($standby->{orders}, join "\0", @{ $standby->{variables} });
    close $standby->{orders};
}

# --- the course of a command ------------------------------------------------------------------------------------------

sub send_frame { my ($command, $type, $data) = @_; $command->{sending} .= (delete $command->{beginning} // '') . frame($type, $data) }
sub send_part  { my ($command, $type, $data) = @_; send_frame($command, $type, $data) if length $data }

sub take_output {
    my ($command, $type, $data) = @_;
    return send_part($command, $type, log_part($command->{logs}{$type}, $data)) if $command->{kind} eq 'service';
    return send_part($command, $type, $data) if $command->{kind} eq 'warm' || $type eq 'o';
    if ($command->{room}) {
        my $count = length $data;
        send_part($command, 'e', take_head(\$data, $command->{room}));
        $command->{room} = length $data || $count > $command->{room} ? 0 : $command->{room} - $count;
    }
    $command->{tail} .= $data;
    my $surplus = length($command->{tail}) - STDERR_TAIL_BYTES;
    if ($surplus > STDERR_TAIL_BYTES) { substr $command->{tail}, 0, $surplus, ''; $command->{left_out} += $surplus }
}

sub drain_stderr {
    my ($command) = @_;
    my $stderr = $command->{streams}{e} or return;
    for (1 .. MAX_PIPE_BYTES / CHUNK) {
        my $count = sysread $stderr, my $data, CHUNK or return;
        take_output($command, 'e', $data) if $command->{main_end};
    }
}

# Reports the exit of a command whose process has ended. Returns whether it still needs attention: its descendants may
# write to its pipes indefinitely, and must not block. $others: as in kill_tree.
sub goes_on {
    my ($command, $others) = @_;
    my $streams = $command->{streams};
    if (defined $command->{status} && $command->{main_end}) {
        kill_tree($others) if $command->{is_ending} || $command->{kind} =~ /^(?:job|service|warm)$/;
        # Drain the pipes now, because remaining children may hold them open indefinitely. At end of file there is no
        # other writer, and the command is finished with its report. While init has a command, the next one gets a
        # supervisor, which its programs could kill.
        for my $type (keys %$streams) {
            for (1 .. MAX_PIPE_BYTES / CHUNK) {
                my $count = sysread $streams->{$type}, my $data, CHUNK;
                delete $streams->{$type} if defined $count && !$count;
                last unless $count;
                take_output($command, $type, $data);
            }
        }
        send_part($command, 'e', noted_tail(@$command{qw(tail left_out)}));
        my $status = $command->{status};
        send_frame($command, 'x', pack 'N', $status & 127 ? 128 + ($status & 127) : $status >> 8);
        delete @$command{qw(main_end input stdin)};
        $command->{feed} = '';
        # Usually everything can be sent at once.
        send_on($command);
    }
    delete @$command{qw(output orders)} if !$command->{main_end} && !length $command->{sending};
    return $command->{output} || %$streams;
}

sub send_on {
    my ($command) = @_;
    my $count = syswrite $command->{output}, $command->{sending};
    substr $command->{sending}, 0, $count, '' if $count;
}

# Returns the handles that the command waits for, in the format of wait_for.
sub handles_of {
    my ($command) = @_;
    my @readers = length $command->{sending} < BACKLOG_BYTES ? values %{ $command->{streams} } : ();
    push @readers, grep { $_ } @$command{qw(orders main_end)};
    push @readers, $command->{input} if $command->{input} && !length $command->{feed};
    my @writers;
    push @writers, $command->{output} if length $command->{sending};
    push @writers, $command->{stdin} if length $command->{feed};
    return (\@readers, \@writers);
}

# $orders: letters, T to terminate a command and K to kill it.
sub obey {
    my ($command, $orders, $others) = @_;
    $command->{is_ending} = 1;
    if ($orders =~ /K/) { kill_tree($others) } else { kill 'TERM', descendants($others) }
}

# Transfers ready data. Returns false if the platform has closed the connection, after killing the command.
sub attend {
    my ($command, $readable, $writable, $others) = @_;
    my ($output, $orders, $input, $streams) = @$command{qw(output orders input streams)};
    my $can_feed = length $command->{feed};
    send_on($command) if length $command->{sending} && is_in($writable, $output);
    if ($orders && is_in($readable, $orders)) {
        my $count = sysread $orders, my $letters, 16;
        if (!$count && (defined $count || $! != EAGAIN && $! != EINTR)) { kill_tree($others); return }
        obey($command, $letters, $others);
    }
    for my $type (keys %$streams) {
        next unless is_in($readable, $streams->{$type});
        my $count = sysread $streams->{$type}, my $data, CHUNK;
        if ($count) {
            # What it printed before an answer belongs to that answer.
            drain_stderr($command) if $type eq 'o' && $command->{kind} eq 'warm';
            take_output($command, $type, $data) if $command->{main_end};
        }
        elsif (defined $count || $! != EAGAIN && $! != EINTR) { delete $streams->{$type} }
    }
    if ($can_feed && is_in($writable, $command->{stdin})) {
        my $count = syswrite $command->{stdin}, $command->{feed};
        if (defined $count) { substr $command->{feed}, 0, $count, '' }
        elsif ($! != EAGAIN && $! != EINTR) { $command->{feed} = ''; delete @$command{qw(stdin input)} }    # The command does not read its input.
    }
    elsif ($input && !$can_feed && is_in($readable, $input)) {
        my $count = sysread $input, $command->{feed}, CHUNK;
        if (defined $count ? !$count : $! != EAGAIN && $! != EINTR) { delete @$command{qw(input stdin)} }
    }
    return 1;
}

# Runs one command in a separate process, which becomes the parent of all its orphans.
sub supervise {
    $0 = 'supervisor';
    sys('prctl', PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    $SIG{CHLD} = 'DEFAULT';
    my $command = begin_command(@_) or return;
    while (1) {
        while ((my $pid = waitpid -1, WNOHANG) > 0) { $command->{status} = $? if $pid == $command->{main} }
        last unless goes_on($command) && attend($command, wait_for(handles_of($command)));
    }
    # Orphans of the command must not pass to init, whose children belong to another command.
    1 while waitpid(-1, 0) > 0;
}

# Runs in the command's own process, even for file operations, so a planted link resolves only inside the sandbox.
sub run_command {
    my ($kind, $cwd, $argument, @environment) = @_;
    my $failed = sub { syswrite STDERR, $_[0]; leave(127) };
    if ($kind =~ /^(?:sh|job|service|warm)$/) {
        chdir $cwd or $failed->("cannot enter $cwd: $!\n");
        my @variables = variables_in($cwd, @environment);
        run_without_shell($argument, @variables);
        run_program('/bin/bash', [ 'bash', '-c', $argument ], @variables);
        run_program('/bin/sh', [ 'sh', '-c', $argument ], @variables);
        $failed->("cannot start a shell: $!\n");
    }
    chdir '/home/user';
    my $ok = $kind eq 'write' ? write_stdin_to($argument) : $kind eq 'read' ? print_file($argument) : list($argument, $kind eq 'tree');
    leave(0) if $ok;
    my $reason = "$!";
    syswrite STDERR, $reason;
    leave(1);
}

sub variables_in { my ($cwd, @environment) = @_; return ((grep { !/^PWD=/ } @environment), "PWD=$cwd") }

# Returns only if the program cannot be started. Perl's exec would first copy the variables one by one.
sub run_program {
    my ($path, $arguments, @variables) = @_;
    syscall $SYS->{execve}, $path, pack('p*', @$arguments, undef), pack('p*', @variables, undef);
}

# Builtins and reserved words of the shell. Programs of the same names behave differently.
my %OF_SHELL = map { $_ => 1 } qw(
    . : alias bg bind break builtin caller case cd command compgen complete compopt continue coproc declare dirs disown do done
    echo elif else enable esac eval exec exit export false fc fg fi for function getopts hash help history if in jobs kill let
    local logout mapfile popd printf pushd pwd read readarray readonly return select set shift shopt source suspend test then
    time times trap true type typeset ulimit umask unalias unset until wait while
);

# The line with which a tool of a loop saves its parameters (core/execution/engines/loop/custom-tools.ts): the variable,
# the file's folder and name, the parameters in quotes.
my $SAVE_INPUT = qr{\Aexport (\w+)="(\$TMPDIR|/tmp)(/\w[\w.]*)"; printf %s '([^']*(?:'\\''[^']*)*)' > "\g2\g3" \|\| exit; exec < /dev/null\n};

# Starts the program of a command that needs no shell features, exactly as bash would but without bash's milliseconds.
# Returns if in doubt.
sub run_without_shell { my @program = program_of(@_); run_program(@program) if @program }

# Returns such a program as run_program takes it, after it has saved the input. Returns nothing if in doubt.
sub program_of {
    my ($command, @variables) = @_;
    # Durable runs say which call of a tool it is.
    push @variables, "$1=$2" if $command =~ s/\Aexport (PLATFORM_TOOL_CALL_ID)=([\w:.-]+)\n//;
    my ($variable, $folder, $file, $input) = $command =~ s/$SAVE_INPUT// ? ($1, $2, $3, $4) : ();
    return if $command !~ m{\A[\w./+:,\@-]+(?: [\w./+:,\@-]+)*\z} || grep { /^(?:BASH|SHELLOPTS=|ENV=|SHLVL=|_=)/ } @variables;
    my ($name, @arguments) = split / /, $command;
    return if $OF_SHELL{$name};
    my $path = $name =~ m{/} ? $name : find_program($name, @variables);
    return unless defined $path && -f $path && -x _;
    if (defined $variable) {
        ($folder) = map { /^TMPDIR=(.*)/s } @variables if $folder ne '/tmp';
        $file = ($folder // return) . $file;
        save($file, $input =~ s/'\\''/'/gr) or return;
        @variables = ((grep { !/^\Q$variable\E=/ } @variables), "$variable=$file");
        open my $nothing, '<', '/dev/null' or return;
        sys('dup3', fileno $nothing, 0, 0);
    }
    return ($path, [ $name, @arguments ], @variables, 'SHLVL=0', "_=$path");
}

# Returns the file that a shell would start. It may turn out not to be a program.
sub find_program {
    my ($name, @variables) = @_;
    my ($folders) = map { /^PATH=(.*)/s } @variables;
    for my $folder (split /:/, $folders // '') { return "$folder/$name" if $folder =~ m{^/} && -e "$folder/$name" }
    return;
}

sub save {
    my ($path, $content) = @_;
    open my $file, '>', $path or return;
    return write_all($file, $content);
}

sub copy { my ($from, $to) = @_; while (my $count = sysread $from, my $data, CHUNK) { write_all($to, $data) or return } return 1 }

sub make_parents {
    my ($path) = @_;
    my $folder = '';
    for my $name (grep { length } split m{/}, $path =~ s{/[^/]*$}{}r) {
        $folder .= "/$name";
        mkdir $folder, 0755 unless -d $folder;
    }
}

sub write_stdin_to {
    my ($path) = @_;
    make_parents($path);
    # Must not block on a named pipe.
    sysopen my $file, $path, 01 | 0100 | 01000 | O_NONBLOCK, 0644 or return;    # O_WRONLY | O_CREAT | O_TRUNC
    if (!-f $file) { $! = 22; return }
    return copy(\*STDIN, $file);
}

sub print_file {
    my ($path) = @_;
    sysopen my $file, $path, O_NONBLOCK or return;
    if (-d $file) { $! = 21; return }
    if (!-f $file) { $! = 22; return }
    return copy($file, \*STDOUT);
}

# Prints type, size and path of each entry, each terminated by NUL. Does not follow links.
sub list {
    my ($root, $is_recursive) = @_;
    my @folders = ('');
    while (defined(my $folder = shift @folders)) {
        opendir my $handle, "$root/$folder" or length $folder ? next : return;
        for my $name (sort grep { $_ ne '.' && $_ ne '..' } readdir $handle) {
            my @stat = lstat "$root/$folder$name" or next;
            my $is_folder = -d _;
            write_all(\*STDOUT, join "\0", $is_folder ? 'd' : 'f', $stat[7], "$folder$name", '') or return;
            push @folders, "$folder$name/" if $is_folder && $is_recursive;
        }
    }
    return 1;
}

if (!caller) {    # Bubblewrap's command: $status and $host_socket are descriptors.
    # $bundle: a folder that is copied into the home folder, if there is one.
    my ($status, $host_socket, $outer, $token, $ports, $entrance, $bundle) = @ARGV;
    close_all_but($status, $host_socket, grep { length } $entrance);
    check_is_process_1($outer);
    if (defined $bundle) { mkdir '/home/user/agent', 0755; copy_folder($bundle, '/home/user/agent') }
    open my $handle, '>&=', $status or die;
    syswrite $handle, "ready\n";
    close $handle;
    open STDERR, '>', '/dev/null';
    run_init($host_socket, $token, $ports, $outer, $entrance);
}

1;

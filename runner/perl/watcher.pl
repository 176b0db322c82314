# Enforces the limits of one sandbox without a cgroup. Each sandbox has its own watcher, a fork of the launcher, so that
# a sandbox with thousands of processes or mappings delays neither the launcher nor other watchers. It checks the
# sandbox ten times a second, or less often to stay below a fifth of a processor. While the sandbox is idle, such as a
# service that waits for requests, it only checks every four seconds whether it still is; the launcher wakes it when the
# machine's free memory shrinks in between.
use strict;
use warnings;

our ($SYS);

use constant {
    LOOK_MS => 100, LOOKS_BEFORE_KILL => 5, IDLE_LOOK_MS => 4000,
    # A sandbox whose memory cannot be counted exactly within this many checks is over its limit. Long enough for a busy
    # machine.
    EXACT_COUNT_LOOKS => 50,
    # Maximum multiple of its limit that a sandbox may use if shared memory is counted once for each process. It bounds
    # the work of the exact count.
    MOST_SHARED => 16,
    # A process with more descriptors than this is charged for each entry of its table with what a pipe may hold there:
    # half of two pages, plus the kernel's records of it.
    FREE_DESCRIPTORS => 256, DESCRIPTOR_BYTES => 6144,
    # Maximum bytes that one sender can leave in a socket's queue, with Linux's default (net.core.wmem_max, doubled);
    # and maximum senders in a datagram socket's queue (net.unix.max_dgram_qlen).
    SENDER_BYTES => 425_984, DATAGRAM_SENDERS => 11,
    SMALL_PROCESSES => 4,
    PR_SET_PDEATHSIG => 1, NS_GET_USERNS => 0xB701, NEW_NET => 0x40000000, PRIO_USER => 2, BASE_NICE => 3,
};

# Forks the watcher of $sandbox, a record of the launcher with root, net, end, had and the limits. Returns the pipe of
# its reports and its id, or nothing. `m`: over the memory or disk limit; `k`, or the pipe's end: the sandbox must be
# killed. $forget closes all handles of the launcher except this sandbox's and its arguments: otherwise the memory of
# other sandboxes would live as long as this process.
sub start_watcher {
    my ($sandbox, $ours, $forget) = @_;
    pipe my $reports, my $writer or return;
    local $SIG{USR1} = 'IGNORE';    # The launcher wakes it, maybe before it runs.
    my $pid = fork // return;
    return ($reports, $pid) if $pid;
    my $launcher = getppid;
    sys('prctl', PR_SET_PDEATHSIG, 9, 0, 0, 0);
    leave(0) if getppid != $launcher;
    $0 = 'platform-sandbox-watcher';
    $forget->($writer);
    open STDIN, '<', '/dev/null';
    open STDOUT, '>', '/dev/null';
    eval { watch({ %$sandbox, nice => BASE_NICE, ours => { map { $_ => 1 } @$ours, $$ } }, $writer) };
    leave(0);
}

sub watch {
    my ($sandbox, $writer) = @_;
    my $diagnosis = open_diagnosis($sandbox->{net});
    my $over = 0;
    my ($seen, $idle, $is_woken) = ('', LOOK_MS, 0);
    while (1) {
        my $began = processor_ms();
        my $used = eval { processor_use($sandbox->{root}) };
        # Without processor time no process in the sandbox can allocate memory, create files or send.
        my $is_idle = !$over && defined $used && $used eq $seen;
        if ($is_idle && !$is_woken) {
            $idle = min(2 * $idle, IDLE_LOOK_MS);
            # Installed only here: at any other time a signal would interrupt a check.
            local $SIG{USR1} = sub { $is_woken = 1 };
            my ($ended) = wait_for([ $sandbox->{end} ], [], $idle / 1000);
            return if is_in($ended, $sandbox->{end});
            next;
        }
        $idle = LOOK_MS unless $is_idle;
        ($seen, $is_woken) = ($used // '', 0);
        my $is_over = eval { is_over($sandbox, $diagnosis) ? 1 : 0 };
        # A sandbox that cannot be checked must not run. Usually it is ending already, so memory is not given as the
        # reason.
        $over = defined $is_over ? $is_over && $over + 1 : LOOKS_BEFORE_KILL + 1;
        if ($over > LOOKS_BEFORE_KILL) { syswrite $writer, 'k'; return }
        syswrite $writer, 'm' if $over == 1;
        my $pause = 4 * (processor_ms() - $began);
        my ($ended) = wait_for([ $sandbox->{end} ], [], ($pause > LOOK_MS ? $pause : LOOK_MS) / 1000);
        return if is_in($ended, $sandbox->{end});
    }
}

# Returns a fingerprint of the sandbox's process ids and CPU times, including the platform's own processes. It is
# unchanged while all processes are idle (resolution 10 ms).
sub processor_use {
    my ($root) = @_;
    my $path = '/proc/self/fd/' . fileno($root) . '/proc';
    opendir my $folder, $path or die "cannot look into a sandbox: $!\n";
    my $use = '';
    for my $pid (grep { /^\d+$/ } readdir $folder) {
        open my $file, '<', "$path/$pid/stat" or next;
        my ($user, $system) = (<$file> // '') =~ /.*\) \S+ (?:\S+ ){10}(\d+) (\d+)/s or next;
        $use .= "$pid $user $system,";
    }
    return $use;
}

# Returns the processor time of this process and its ended children.
sub processor_ms {
    my $time = "\0" x 16;
    syscall $SYS->{clock_gettime}, 2, $time;    # CLOCK_PROCESS_CPUTIME_ID
    my ($seconds, $nanoseconds) = unpack 'q2', $time;
    my (undef, undef, $user, $system) = times;
    return $seconds * 1000 + $nanoseconds / 1e6 + ($user + $system) * 1000;
}

# --- memory ----------------------------------------------------------------------------------------------------------

sub is_over {
    my ($sandbox, $diagnosis) = @_;
    my ($is_over, $own, $pids) = rough_count($sandbox, $diagnosis);
    return $is_over if defined $is_over;
    my $pause = sub { (rough_count($sandbox, $diagnosis))[0] };
    return $own + exact_count($sandbox->{root}, $pids, $pause) > $sandbox->{limit};
}

# Returns whether the sandbox is over its limit; or undef if that depends on shared memory, followed by the unshared
# bytes and the processes.
sub rough_count {
    my ($sandbox, $diagnosis) = @_;
    my ($limit, $root) = @$sandbox{qw(limit root)};
    my $files = files_of($root) - $sandbox->{had};
    # Enforces the disk limit if the sandbox has no file system of its own to do so.
    return 1 if $files > $sandbox->{disk};
    my $processes = processes_of($root, $sandbox->{ours});
    share_processor($sandbox, $processes);
    my ($own, $shared) = ($files + socket_bytes($diagnosis), 0);
    for my $process (values %$processes) {
        my $descriptors = $process->{FDSize} - FREE_DESCRIPTORS;
        $own += 1024 * $process->{VmPTE} + ($descriptors > 0 ? $descriptors * DESCRIPTOR_BYTES : 0);
        $shared += 1024 * ($process->{RssAnon} + $process->{RssShmem} + $process->{VmSwap});
    }
    return 0 if $own + $shared <= $limit;
    return 1 if $own > $limit || $shared > MOST_SHARED * $limit;
    return (undef, $own, [ keys %$processes ]);
}

# Whether a sandbox has only a few processes, and these and its files use at most half of its memory. False if that
# cannot be determined.
sub is_small {
    my ($sandbox) = @_;
    opendir my $folder, '/proc/self/fd/' . fileno($sandbox->{root}) . '/proc' or return;
    my $count = 0;
    while (defined(my $name = readdir $folder)) { return if $name =~ /^\d/ && ++$count > SMALL_PROCESSES }
    my $processes = eval { processes_of($sandbox->{root}, {}) } or return;
    my $bytes = eval { files_of($sandbox->{root}) - $sandbox->{had} } // return;
    $bytes += 1024 * ($_->{RssAnon} + $_->{RssShmem} + $_->{VmSwap}) for values %$processes;
    return $bytes <= $sandbox->{limit} / 2;
}

# Returns the state of each process from the one file whose cost does not depend on the process: { id => { State, VmPTE,
# ... } }.
sub processes_of {
    my ($root, $ours) = @_;
    my $path = '/proc/self/fd/' . fileno($root) . '/proc';
    opendir my $folder, $path or die "cannot look into a sandbox: $!\n";
    my %processes;
    for my $pid (grep { /^\d+$/ && !$ours->{$_} } readdir $folder) {
        open my $file, '<', "$path/$pid/status" or next;
        my $text = do { local $/; <$file> } // next;
        $processes{$pid} = {
            (map { $_ => 0 } qw(VmPTE RssAnon RssShmem VmSwap FDSize Threads)),
            $text =~ /^(State|VmPTE|RssAnon|RssShmem|VmSwap|FDSize|Threads|NSsid):\s+(\w+)/mg,
        };
    }
    return \%processes;
}

# Returns the bytes in the memory of @$pids, counting shared pages once. The kernel walks all their mappings, and blocks
# while one of them changes its own. So a child process reads them, which can be killed, also when $is_over becomes
# true.
sub exact_count {
    my ($root, $pids, $is_over) = @_;
    pipe my $reader, my $writer or die "pipe: $!\n";
    my $child = fork // die "fork: $!\n";
    if (!$child) {
        my $path = '/proc/self/fd/' . fileno($root) . '/proc';
        my $kilobytes = 0;
        for my $pid (@$pids) {
            # Processes that have ended in the meantime have no such file.
            open my $file, '<', "$path/$pid/smaps_rollup" or next;
            my $text = do { local $/; <$file> } // next;
            $kilobytes += $1 while $text =~ /^(?:Pss_Anon|Pss_Shmem|SwapPss):\s+(\d+)/mg;
        }
        syswrite $writer, 1024 * $kilobytes;
        leave(0);
    }
    close $writer;
    my $bytes;
    for (1 .. EXACT_COUNT_LOOKS) {
        my ($answered) = wait_for([$reader], [], LOOK_MS / 1000);
        if (is_in($answered, $reader)) { sysread $reader, $bytes, 32; last }
        last if $is_over->();
    }
    kill 'KILL', $child;
    waitpid $child, 0;
    return length $bytes ? $bytes : 9e18;
}

# --- sockets ---------------------------------------------------------------------------------------------------------

# Opens a netlink socket that lists the sockets of the sandbox's network, or of this process's network if it has none of
# its own.
sub open_diagnosis {
    my ($net) = @_;
    if ($net) {
        if ($> != 0) {
            # Only a member of the user namespace that owns the network may enter it. The namespace's creator may join
            # it.
            my $owner = ioctl($net, NS_GET_USERNS, 0) or die "cannot find a sandbox's user namespace: $!\n";
            sys('setns', 0 + $owner, 0);
        }
        sys('setns', fileno $net, NEW_NET);
    }
    socket my $socket, 16, 3, 4 or die "cannot list sockets: $!\n";    # AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG
    return $socket;
}

# Returns the bytes that the kernel holds for sockets: sent but unread data and the kernel's records of it.
sub socket_bytes {
    my ($socket) = @_;
    my $bytes = 0;
    # struct unix_diag_req: all states; the peer, the lengths of queues and memory.
    dump_sockets($socket, pack('C C S L L L L2', 1, 0, 0, 0xFFFFFFFF, 0, 0x34, -1, -1), 16, sub {
        my ($type, $attributes) = @_;
        my @memory = unpack 'L*', $attributes->{5} // '';
        $bytes += ($memory[0] // 0) + ($memory[2] // 0);    # Counts with the sender.
        # The kernel reports only the existence of data from closed senders, not its size. A closed peer has no inode.
        my ($queue) = unpack 'L', $attributes->{4} // '';
        my ($peer) = unpack 'L', $attributes->{2} // '';
        $bytes += SENDER_BYTES * ($type == 2 ? DATAGRAM_SENDERS : 1) if $queue && !$peer;
    });
    for my $family (2, 10) {
        for my $protocol (6, 17) {
            # struct inet_diag_req_v2: all states; memory.
            dump_sockets($socket, pack('C4 L x48', $family, $protocol, 1 << 6, 0, 0xFFFFFFFF), 72, sub {
                my @memory = unpack 'L*', $_[1]{7} // return;
                $bytes += $memory[0] + ($memory[2] > $memory[5] ? $memory[2] : $memory[5]) + ($memory[7] // 0);
            });
        }
    }
    return $bytes;
}

# Calls $each with the type and the attributes, { number => bytes }, of each socket that the kernel lists for $request.
sub dump_sockets {
    my ($socket, $request, $header_bytes, $each) = @_;
    send $socket, pack('L S S L L', 16 + length $request, 20, 0x301, 1, 0) . $request, 0 or die "cannot list sockets: $!\n";
    while (1) {
        my ($ready) = wait_for([$socket], [], 1);
        is_in($ready, $socket) or die "cannot list sockets: no answer\n";
        recv $socket, my $data, 1 << 16, 0 // die "cannot list sockets: $!\n";
        for (my $at = 0; $at + 16 <= length $data;) {
            my ($length, $type) = unpack 'L S', substr $data, $at, 6;
            return if $type == 2 || $type == 3 || $length < 16;    # The end, or a kernel without such sockets.
            my $end = $at + $length;
            my %attributes;
            for (my $from = $at + 16 + $header_bytes; $from + 4 <= $end;) {
                my ($bytes, $number) = unpack 'S S', substr $data, $from, 4;
                last if $bytes < 4;
                $attributes{$number} = substr $data, $from + 4, $bytes - 4;
                $from += ($bytes + 3) & ~3;
            }
            $each->(ord(substr $data, $at + 17, 1), \%attributes);
            $at = ($end + 3) & ~3;
        }
    }
}

# --- processor -------------------------------------------------------------------------------------------------------

# Gives a sandbox the weight of one process, however many it runs: the kernel's scheduler shares time between processes,
# or between sessions with autogroup, but not between sandboxes. Only root may lower a nice value again, and as root
# each sandbox has its own host user.
sub share_processor {
    my ($sandbox, $processes) = @_;
    return if $> != 0 || !$sandbox->{net};
    my $path = '/proc/self/fd/' . fileno($sandbox->{root}) . '/proc';
    my ($running, %sessions) = (0);
    for my $pid (keys %$processes) {
        my $process = $processes->{$pid};
        $sessions{ $process->{NSsid} // 0 } = $pid;
        $running += $process->{Threads} > 1 ? running_threads("$path/$pid/task") : $process->{State} eq 'R';
    }
    my $nice = nice_of(BASE_NICE, $running);
    if ($sandbox->{nice} != $nice) { setpriority PRIO_USER, $sandbox->{uid}, $nice; $sandbox->{nice} = $nice }
    my $group_nice = nice_of(BASE_NICE, scalar keys %sessions);
    for my $pid (values %sessions) {
        open my $file, '+<', "$path/$pid/autogroup" or next;
        my $line = <$file> // next;
        syswrite $file, $group_nice unless $line =~ / nice $group_nice$/;
    }
}

sub running_threads {
    my ($path) = @_;
    opendir my $folder, $path or return 0;
    my $running = 0;
    for my $id (grep { /^\d+$/ } readdir $folder) {
        open my $file, '<', "$path/$id/stat" or next;
        $running++ if (<$file> // '') =~ /.*\) R/s;
    }
    return $running;
}

# Returns the nice value at which $count processes together weigh as much as one at $base, as far as nice values allow:
# each weighs 1.25 times the next.
sub nice_of {
    my ($base, $count) = @_;
    my $nice = $base + int(0.99 + log($count > 1 ? $count : 1) / log 1.25);
    return $nice > 19 ? 19 : $nice;
}

1;

#!/usr/bin/perl
# The launcher: one per platform process, outside all sandboxes. It forks sandboxes and their watchers, and kills them. A
# fork from here is much cheaper than a spawn from Node's large process, and needs no program that Debian lacks.
# Arguments: its scratch folder, which holds the host's socket; the cgroup in which sandboxes get theirs, or nothing; and as root
# the sources to stage.
use strict;
use warnings;

our ($SYS, $PIDFD_SEND_SIGNAL, $PIDFD_OPEN, $MOUNT_SETATTR);
BEGIN {
    require(__FILE__ =~ s{[^/]*$}{inside.pl}r);    # A sandbox runs its init; its helpers are used here, too.
    require(__FILE__ =~ s{[^/]*$}{watcher.pl}r);
    require(__FILE__ =~ s{[^/]*$}{cgroup.pl}r);
}

use constant {
    MS_RDONLY => 1, MS_NOSUID => 2, MS_NODEV => 4, MS_NOEXEC => 8, MS_REMOUNT => 32, MS_BIND => 4096, MS_REC => 16384,
    MS_SLAVE => 1 << 19, MNT_DETACH => 2,
    NEW_USER => 0x10000000, NEW_MOUNT => 0x00020000, NEW_OTHERS => 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000 | 0x02000000,
    PR_CAPBSET_DROP => 24, O_PATH => 010000000, O_CLOEXEC => 02000000, F_SETFD => 2,
    # Each sandbox has a host uid of its own, from a range that no host assigns.
    FIRST_UID => 1_900_000_000,
    # This part of the machine's free memory has to go before the watchers of idle sandboxes look.
    WAKE_PART => 1 / 16, MEMORY_LOOK_SECONDS => 0.2,
};

# --- building a sandbox ----------------------------------------------------------------------------------------------

sub touch { my ($path) = @_; open my $file, '>', $path or die "cannot create $path: $!\n" }

sub bind_mount {
    my ($source, $target) = @_;
    make_parents($target);
    if (-d $source) { mkdir $target, 0755 unless -d $target }
    else            { touch($target) unless -e $target }
    eval { sys('mount', $source, $target, 0, MS_BIND | MS_REC, 0); 1 } or die "cannot show $source at $target: $@";
}

# Mounts each folder that holds sources of $plan where their paths do not show, and returns the mounts: folder => mount.
# /proc/self/mountinfo names the whole path of what is bound, but of an overlay only what it was given as its folders, here
# ".". Sources that have the same path inside are left out, and all of them where the kernel refuses.
sub hide_paths {
    my ($plan) = @_;
    my %folders = map { -d $_ ? ($_ => 1) : (s{/[^/]+$}{}r => 1) }
        map { "/old$$_[2]" } grep { $$_[0] eq 'bind' && $$_[1] ne $$_[2] } @$plan;
    my %mounts;
    # An overlay of a single folder would need a writable one. This second one stays: without it, folders are listed empty.
    mkdir $_, 0755 for '/hidden', '/.nothing';
    for my $folder (sort keys %folders) {
        next if grep { inside($folder, $_) } keys %mounts;
        my $at = '/hidden/' . keys %mounts;
        mkdir $at, 0755;
        chdir $folder or die "cannot enter $folder: $!\n";
        my $is_mounted = eval { sys('mount', 'host', $at, 'overlay', MS_RDONLY | MS_NOSUID | MS_NODEV, 'lowerdir=.:/.nothing'); 1 };
        chdir '/';
        last unless $is_mounted;
        $mounts{$folder} = $at;
    }
    return \%mounts;
}

sub inside { my ($path, $folder) = @_; return $path eq $folder || index($path, "$folder/") == 0 }

# Recursive. Keeps existing flags, which an ordinary user's remount may not drop.
sub set_mount_flags {
    my ($path, $flags) = @_;
    sys($MOUNT_SETATTR, -100, $path, 0x8000, pack('Q4', $flags, 0, 0, 0), 32);
}

# Builds the file system from nothing and moves into it. $plan: a list of [operation, at, from] (host-runtime.ts).
sub build_root {
    my ($plan, $disk_bytes) = @_;
    sys('mount', 'none', '/', 0, MS_SLAVE | MS_REC, 0);
    # Mounted over /tmp because that always exists. After pivot_root, the mount covers nothing.
    sys('mount', 'sandbox', '/tmp', 'tmpfs', MS_NOSUID | MS_NODEV, 'mode=755,size=1m');
    mkdir '/tmp/old', 0755;
    chdir '/tmp';
    sys('pivot_root', '.', 'old');
    chdir '/';

    mkdir '/rw', 0755;
    # A file with content takes at least a page, so the bytes run out before the inodes do. The inodes bound empty files.
    my $inodes = int($disk_bytes / 4096) + 1000;
    sys('mount', 'files', '/rw', 'tmpfs', MS_NOSUID | MS_NODEV, "mode=755,size=$disk_bytes,nr_inodes=$inodes");
    for ([ 'home', '/home/user', 0755 ], [ 'tmp', '/tmp', 01777 ], [ 'shm', '/dev/shm', 01777 ]) {
        my ($name, $at, $mode) = @$_;
        mkdir "/rw/$name";
        chmod $mode, "/rw/$name";
        bind_mount("/rw/$name", $at);
    }
    sys('umount2', '/rw', MNT_DETACH);
    rmdir '/rw';

    for my $name (qw(null zero full random urandom)) { bind_mount("/old/dev/$name", "/dev/$name") }
    mkdir '/dev/pts', 0755;
    sys('mount', 'devpts', '/dev/pts', 'devpts', MS_NOSUID | MS_NOEXEC, 'newinstance,ptmxmode=0666,mode=620');
    symlink 'pts/ptmx', '/dev/ptmx';
    symlink '/proc/self/fd', '/dev/fd';
    symlink "/proc/self/fd/$$_[0]", "/dev/$$_[1]" for [ 0, 'stdin' ], [ 1, 'stdout' ], [ 2, 'stderr' ];

    mkdir '/proc', 0755;
    sys('mount', 'proc', '/proc', 'proc', MS_NOSUID | MS_NODEV | MS_NOEXEC, 0);
    if (open my $limit, '>', '/proc/sys/user/max_user_namespaces') { print $limit "0\n" }
    for my $path (grep { -e } qw(/proc/sys /proc/sysrq-trigger /proc/irq /proc/bus)) {
        bind_mount($path, $path);
        set_mount_flags($path, MS_RDONLY);
    }

    my $hidden = hide_paths($plan);
    for (@$plan) {
        my ($operation, $at, $from) = @$_;
        if ($operation eq 'bind') {
            my $source = "/old$from";
            my ($folder) = $at eq $from ? () : grep { inside($source, $_) } keys %$hidden;
            bind_mount($folder ? $hidden->{$folder} . substr($source, length $folder) : $source, $at);
            set_mount_flags($at, MS_RDONLY | MS_NOSUID | MS_NODEV);
        }
        else { make_parents($at); symlink $from, $at or die "cannot link $at: $!\n" }
    }

    sys('umount2', $_, MNT_DETACH) for '/old', values %$hidden;
    rmdir for '/old', values %$hidden, '/hidden';
    sys('mount', 'none', '/', 0, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, 0);
}

sub write_file {
    my ($path, $text) = @_;
    open my $file, '>', $path or die "cannot open $path: $!\n";
    (syswrite $file, $text) // die "cannot write $path: $!\n";
}

sub drop_capabilities {
    for my $capability (0 .. 63) { syscall $SYS->{prctl}, PR_CAPBSET_DROP, $capability, 0, 0, 0 }
    sys('capset', pack('L2', 0x20080522, 0), pack('L6', (0) x 6));
}

sub loopback_up {
    socket my $socket, 2, 2, 0 or die "socket: $!\n";
    my $request = pack 'a16 s x22', 'lo', 0x41;    # IFF_UP | IFF_RUNNING
    ioctl $socket, 0x8914, $request or die "cannot bring loopback up: $!\n";
}

# --- starting and killing -------------------------------------------------------------------------------------

# As root, mounts all sources of sandboxes where any uid can reach them, in a mount namespace that only the launcher and its
# children have. So an unprivileged uid can build each sandbox.
sub stage {
    my (@sources) = @_;
    sys('unshare', NEW_MOUNT);
    sys('mount', 'none', '/', 0, MS_SLAVE | MS_REC, 0);
    my @held = map { open_path($_) } @sources;
    sys('mount', 'stage', '/mnt', 'tmpfs', MS_NOSUID | MS_NODEV, 'mode=755,size=1m');
    for my $index (0 .. $#sources) { bind_mount('/proc/self/fd/' . fileno $held[$index], "/mnt/$index") }
}

sub open_path { my ($path) = @_; sysopen my $handle, $path, O_PATH or die "cannot open $path: $!\n"; return $handle }

sub become { my ($id) = @_; sys('setgroups', 0, 0); sys('setresgid', $id, $id, $id); sys('setresuid', $id, $id, $id) }

# In a fork of the launcher: lets go of everything but the standard three and @handles. What the launcher knows of other
# sandboxes leads into them. What has no handle in %$sandboxes gets /dev/null in its place, because Perl may know the number
# (close_all_but).
sub keep_only {
    my ($sandboxes, @handles) = @_;
    close $_ for map { grep { ref eq 'GLOB' } values %$_ } values %$sandboxes;
    open my $nothing, '<', '/dev/null' or die "cannot open /dev/null: $!\n";
    my %keep = map { fileno($_) => 1 } $nothing, @handles;
    sys('dup3', fileno $nothing, 0 + $_, O_CLOEXEC) for grep { !$keep{$_} } open_descriptors();
}

# The launcher and its watchers must also run when sandboxes keep all processors busy.
sub go_first {
    setpriority 0, 0, -5;
    if (open my $group, '>', '/proc/self/autogroup') { syswrite $group, -5 }
}

# The session and the nice value of a sandbox. The scheduler shares between sessions where it groups by them (autogroup).
sub go_last {
    sys('setsid');
    setpriority 0, 0, BASE_NICE;
    if (open my $group, '>', '/proc/self/autogroup') { syswrite $group, BASE_NICE }
}

# Runs in a process of its own. $outer: the launcher's pid namespace. @setup: the path of bubblewrap and its arguments, or the
# plan with three fields per entry, or the word 'container' where the container around the runner is the sandbox already.
sub start_sandbox {
    my ($status, $host_socket, $outer, $entrance, $token, $ports, $disk_bytes, @setup) = @_;
    if ($setup[0] eq 'container') {
        open STDIN, '<', '/dev/null' or die;
        open STDOUT, '>', '/dev/null' or die;
        syswrite $status, "\"child-pid\": $$\nready\n";
        close $status;
        run_init(fileno $host_socket, $token, $ports);
    }
    go_last();
    if ($> == 0) {
        become(FIRST_UID + $$);
        sys('prctl', PR_SET_DUMPABLE, 1, 0, 0, 0);    # Otherwise /proc/self belongs to root, and the uid map cannot be written.
    }
    open STDIN, '<', '/dev/null' or die;
    open STDOUT, '>', '/dev/null' or die;
    if ($setup[0] =~ m{^/}) {
        open STDERR, '>&', $status;
        open my $info, '>&', $status or die;           # Bubblewrap closes this one.
        fcntl $_, F_SETFD, 0 for $status, $info, $host_socket, $entrance ? $entrance : ();
        my %value = ('@status' => fileno $status, '@info' => fileno $info, '@host' => fileno $host_socket, '@outer' => $outer);
        $value{'@entrance'} = $entrance ? fileno $entrance : '';
        exec { $setup[0] } map { $value{$_} // $_ } @setup or die "cannot start bwrap: $!\n";
    }
    my ($uid, $gid) = ($>, $) + 0);
    sys('unshare', NEW_USER);
    write_file('/proc/self/setgroups', 'deny');
    write_file('/proc/self/uid_map', "1000 $uid 1");
    write_file('/proc/self/gid_map', "1000 $gid 1");
    sys('unshare', NEW_MOUNT | NEW_OTHERS);
    my $pid = fork // die "fork: $!\n";
    if ($pid) { syswrite $status, "\"child-pid\": $pid\n"; leave(0) }
    my @plan;
    while (@setup) { push @plan, [ splice @setup, 0, 3 ] }
    build_root(\@plan, $disk_bytes);
    sys('sethostname', 'sandbox', 7);
    loopback_up();
    drop_capabilities();
    check_is_process_1($outer);
    syswrite $status, "ready\n";
    close $status;
    run_init(fileno $host_socket, $token, $ports, $outer, $entrance && fileno $entrance);
}

# Memory that the machine could still give to programs.
sub available_kilobytes {
    open my $file, '<', '/proc/meminfo' or return 0;
    sysread $file, my $text, 256;
    return $text =~ /^MemAvailable:\s+(\d+)/m ? $1 : 0;
}

# Bytes in the files of a sandbox. Counts each file system once.
sub files_of {
    my ($root) = @_;
    my (%seen, $bytes);
    for my $folder (map { "/proc/self/fd/" . fileno($root) . $_ } qw(/home/user /tmp /dev/shm)) {
        my $device = (stat $folder)[0] // die "cannot see a sandbox's files: $!\n";
        next if $seen{$device}++;
        my $buffer = "\0" x 128;
        syscall($SYS->{statfs}, $folder, $buffer) == 0 or die "cannot see a sandbox's files: $!\n";
        my (undef, $block_bytes, $blocks, $free) = unpack 'q4', $buffer;
        $bytes += ($blocks - $free) * $block_bytes;
    }
    return $bytes;
}

my $is_container;

# Reads requests from stdin and writes events to stdout. When stdin ends, the platform is gone, and all sandboxes are killed.
sub run_launcher {
    my ($scratch, $group, @sources) = @_;
    $0 = 'platform-sandbox-launcher';
    close_all_but();
    my $namespace = readlink('/proc/self/ns/pid') // die "cannot see the pid namespace: $!\n";
    umask 022;
    $SIG{PIPE} = 'IGNORE';
    my $host_socket = open_path("$scratch/host.sock");
    stage(@sources) if $> == 0;
    go_first() if $> == 0;
    sys('prctl', PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    my $tell = sub { my $text = join "\0", @_; write_all(\*STDOUT, pack 'N/a*', $text) };
    # id => { status, said, group, kills, root, net, uid, had, end, limit, disk, watch_at, watcher }: status is the pipe of one that
    # starts, said is its text so far; root is its folder, net its network, uid its user on the host; had are the bytes in its files before it
    # started; end is readable when it has ended; limit and disk are its limits in bytes; watch_at is when its watcher
    # starts: with the first look at what its commands use, since most are gone by then; watcher is the pipe of its watcher,
    # watcher_id the watcher's process.
    # Or, instead of the watcher: group is its cgroup, kills is how often the kernel has ended processes for their memory.
    my %sandboxes;
    my @ended_groups;
    my $requests = '';
    my $most_available = 0;
    my $tell_kills = sub {
        my ($id) = @_;
        my $sandbox = $sandboxes{$id};
        return if !$sandbox->{group} || !defined $sandbox->{kills};
        my $kills = memory_kills($sandbox->{group});
        $tell->('memory', $id) if $kills > $sandbox->{kills};
        $sandbox->{kills} = $kills;
    };
    my $start_watching = sub {
        my ($id) = @_;
        my $sandbox = $sandboxes{$id};
        delete $sandbox->{watch_at};
        my $forget = sub {
            my %others = map { $_ => $sandboxes{$_} } grep { $_ ne $id } keys %sandboxes;
            keep_only(\%others, grep { $_ } @$sandbox{qw(root net end)}, @_);
        };
        # In a container, the visible processes include the launcher and the runner. Elsewhere the ids are of another
        # namespace.
        @$sandbox{qw(watcher watcher_id)} = start_watcher($sandbox, $is_container ? [ $$, getppid ] : [], $forget);
        kill_sandbox($sandbox) unless $sandbox->{watcher};
    };
    my $forget = sub {
        my ($id) = @_;
        my $sandbox = delete $sandboxes{$id};
        push @ended_groups, $sandbox->{group} if $sandbox->{group};
    };

    $tell->('started');
    while (1) {
        1 while waitpid(-1, WNOHANG) > 0;
        @ended_groups = grep { !remove_group($_) } @ended_groups;
        my $handles = [ \*STDIN, map { grep { $_ } @$_{qw(status end watcher)} } values %sandboxes ];
        my $is_watched = grep { $_->{watcher} } values %sandboxes;
        my @waits = map { my $wait = $_->{watch_at} - now(); $wait > 0 ? $wait : 0 } grep { $_->{watch_at} } values %sandboxes;
        push @waits, 0.1 if @ended_groups;
        push @waits, MEMORY_LOOK_SECONDS if $is_watched;
        my ($shortest) = sort { $a <=> $b } @waits;
        my ($readable) = wait_for($handles, [], $shortest);

        for my $id (keys %sandboxes) {
            my $sandbox = $sandboxes{$id};
            if ($sandbox->{status} && is_in($readable, $sandbox->{status})) {
                my $count = sysread $sandbox->{status}, $sandbox->{said}, CHUNK, length $sandbox->{said};
                my ($pid) = $sandbox->{said} =~ /"child-pid": (\d+)/;
                if ($pid && $sandbox->{said} =~ /^ready$/m) {
                    my $ok = eval {
                        $sandbox->{root} = open_path($is_container ? '/' : "/proc/$pid/root");
                        if (!$is_container) { open $sandbox->{net}, '<', "/proc/$pid/ns/net" or die "cannot see a sandbox's network: $!\n" }
                        $sandbox->{had} = $is_container ? files_of($sandbox->{root}) : 0;
                        open $sandbox->{end}, '<&=', sys($PIDFD_OPEN, 0 + $pid, 0) or die;
                        1;
                    };
                    delete $sandbox->{status};
                    if ($ok) { $tell->('ready', $id) }
                    else     { $tell->('failed', $id, $@); kill_sandbox($sandbox); $forget->($id) }
                }
                elsif (!$count) { $tell->('failed', $id, $sandbox->{said}); $forget->($id) }
            }
            elsif ($sandbox->{end} && is_in($readable, $sandbox->{end})) {
                $tell_kills->($id);
                $tell->('gone', $id);
                $forget->($id);
            }
            elsif ($sandbox->{watcher} && is_in($readable, $sandbox->{watcher})) {
                sysread $sandbox->{watcher}, my $report, 1;
                if ($report eq 'm') { $tell->('memory', $id) }
                # Also when the watcher has died: a sandbox that is not watched must not run.
                else { delete $sandbox->{watcher}; kill_sandbox($sandbox) }
            }
        }
        for my $id (grep { $sandboxes{$_}{watch_at} } keys %sandboxes) {
            $start_watching->($id) if $sandboxes{$id}{watch_at} <= now();
        }
        # A sandbox that was idle may be what takes the machine's memory.
        my $available = $is_watched ? available_kilobytes() : 0;
        if ($available < $most_available * (1 - WAKE_PART)) {
            kill 'USR1', map { $_->{watcher} ? $_->{watcher_id} : () } values %sandboxes;
            $most_available = $available;
        }
        $most_available = $available if $available > $most_available;
        if (is_in($readable, \*STDIN)) {
            if (!sysread STDIN, $requests, CHUNK, length $requests) {
                kill_sandbox($_) for values %sandboxes;
                unlink glob "$scratch/*";
                rmdir $scratch;
                remove_all($group, @ended_groups, map { $_->{group} // () } values %sandboxes) if length $group;
                exit 0;
            }
            while (my ($request, $id, @fields) = take_record(\$requests)) {
                if ($request eq 'start') {
                    pipe my $status, my $status_writer or die;
                    if ($fields[3] eq 'container') {
                        # Commands have the launcher's uid and could otherwise read and trace it.
                        sys('prctl', PR_SET_DUMPABLE, 0, 0, 0, 0);
                        $is_container = 1;
                    }
                    $sandboxes{$id} = { status => $status, said => '' };
                    my $entrance;
                    if (length $group) {
                        $sandboxes{$id}{group} = "$group/$id";
                        $entrance = eval { make_group("$group/$id") } or syswrite $status_writer, $@;
                        next if !$entrance;
                    }
                    my $pid = fork // next;
                    $sandboxes{$id}{uid} = FIRST_UID + $pid;
                    next if $pid;
                    eval {
                        keep_only(\%sandboxes, $status_writer, $host_socket, $entrance ? $entrance : ());
                        enter_own_group("$group/$id") if $entrance;
                        start_sandbox($status_writer, $host_socket, $namespace, $entrance, @fields);
                        1;
                    } or syswrite $status_writer, $@;
                    leave(1);
                }
                elsif ($request eq 'watch') {
                    my $sandbox = $sandboxes{$id} or next;
                    my $processes;
                    (@$sandbox{qw(limit disk)}, $processes) = @fields;
                    if ($sandbox->{group}) {
                        $sandbox->{kills} = 0;
                        eval { limit_group($sandbox->{group}, $sandbox->{limit}, $processes); 1 } or kill_sandbox($sandbox);
                        next;
                    }
                    $sandbox->{watch_at} = now() + LOOK_MS / 1000;
                }
                elsif ($request eq 'look') { $tell_kills->($id) if $sandboxes{$id}; $tell->('looked', $id) }
                elsif ($request eq 'kill')  { kill_sandbox($sandboxes{$id}) if $sandboxes{$id} }
            }
        }
    }
}

sub kill_sandbox {
    my ($sandbox) = @_;
    kill_group($sandbox->{group}) if $sandbox->{group};
    return unless $sandbox->{end};
    syscall $PIDFD_SEND_SIGNAL, fileno $sandbox->{end}, 9, 0, 0;
    # No namespace ends with its init, so its other processes are now children of the launcher.
    kill_tree() if $is_container;
}

run_launcher(@ARGV);

#!/usr/bin/perl
# The launcher: one per platform process, outside. It forks sandboxes, watches their memory and kills them. Forking from
# here is much cheaper than starting a program from a process of Node's size, and needs no program that Debian lacks.
# Arguments: its scratch folder, which holds the door, and as root the sources to stage.
use strict;
use warnings;

our ($SYS, $PIDFD_SEND_SIGNAL, $PIDFD_OPEN, $MOUNT_SETATTR);
BEGIN { require(__FILE__ =~ s{[^/]*$}{inside.pl}r) }    # Its init is what a sandbox runs; its helpers serve here, too.

use constant {
    MS_RDONLY => 1, MS_NOSUID => 2, MS_NODEV => 4, MS_NOEXEC => 8, MS_REMOUNT => 32, MS_BIND => 4096, MS_REC => 16384,
    MS_SLAVE => 1 << 19, MNT_DETACH => 2,
    NEW_USER => 0x10000000, NEW_MOUNT => 0x00020000, NEW_OTHERS => 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000 | 0x02000000,
    PR_CAPBSET_DROP => 24, O_PATH => 010000000, F_SETFD => 2, WATCH_INTERVAL_MS => 100,
};

sub milliseconds {
    my $time = "\0" x 16;
    syscall $SYS->{clock_gettime}, 1, $time;    # CLOCK_MONOTONIC
    my ($seconds, $nanoseconds) = unpack 'q2', $time;
    return $seconds * 1000 + int($nanoseconds / 1e6);
}

# --- building a sandbox ----------------------------------------------------------------------------------------------

sub touch { my ($path) = @_; open my $file, '>', $path or die "cannot create $path: $!\n" }

sub bind_mount {
    my ($source, $target) = @_;
    make_parents($target);
    if (-d $source) { mkdir $target, 0755 unless -d $target }
    else            { touch($target) unless -e $target }
    eval { sys('mount', $source, $target, 0, MS_BIND | MS_REC, 0); 1 } or die "cannot show $source at $target: $@";
}

# Recursive, and keeps the flags that are there: what an ordinary user's remount may not drop.
sub set_mount_flags {
    my ($path, $flags) = @_;
    sys($MOUNT_SETATTR, -100, $path, 0x8000, pack('Q4', $flags, 0, 0, 0), 32);
}

# Builds the file system from nothing and moves into it. $plan: [operation, argument, ...] as host-runtime.ts makes it.
sub build_root {
    my ($plan, $disk_bytes) = @_;
    sys('mount', 'none', '/', 0, MS_SLAVE | MS_REC, 0);
    # Over /tmp only because it is always there; pivot_root lifts it off again.
    sys('mount', 'sandbox', '/tmp', 'tmpfs', MS_NOSUID | MS_NODEV, 'mode=755,size=1m');
    mkdir '/tmp/old', 0755;
    chdir '/tmp';
    sys('pivot_root', '.', 'old');
    chdir '/';

    mkdir '/rw', 0755;
    # A file takes a page at least, so this many inodes never bind before the bytes do, but keep empty files countable.
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

    for (@$plan) {
        my ($operation, $at, $from) = @$_;
        if ($operation eq 'bind') {
            bind_mount("/old$from", $at);
            set_mount_flags($at, MS_RDONLY | MS_NOSUID | MS_NODEV);
        }
        else { make_parents($at); symlink $from, $at or die "cannot link $at: $!\n" }
    }

    sys('umount2', '/old', MNT_DETACH);
    rmdir '/old';
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

# --- starting, watching, killing -------------------------------------------------------------------------------------

# As root, everything a sandbox is to see is laid out where any uid may pass, in a mount namespace that only the launcher
# and its children have; so each sandbox can be built by an unprivileged uid.
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

# In a process of its own. @how: the path of bubblewrap and its arguments, or the plan, three fields an entry, or the word
# 'container' where the container around the runner is the sandbox already.
sub start_sandbox {
    my ($status, $door, $token, $ports, $disk_bytes, @how) = @_;
    if ($how[0] eq 'container') {
        open STDIN, '<', '/dev/null' or die;
        open STDOUT, '>', '/dev/null' or die;
        syswrite $status, "\"child-pid\": $$\nready\n";
        close $status;
        run_init(fileno $door, $token, $ports, 1);
    }
    if ($> == 0) {
        # A host uid of its own for each sandbox, from a range that no host assigns.
        become(1_900_000_000 + $$);
        sys('prctl', PR_SET_DUMPABLE, 1, 0, 0, 0);    # Else /proc/self belongs to root, and the uid map cannot be written.
    }
    open STDIN, '<', '/dev/null' or die;
    open STDOUT, '>', '/dev/null' or die;
    if ($how[0] =~ m{^/}) {
        open STDERR, '>&', $status;
        open my $info, '>&', $status or die;           # Bubblewrap closes this one.
        fcntl $_, F_SETFD, 0 for $status, $info, $door;
        my %descriptor = ('@status' => fileno $status, '@info' => fileno $info, '@door' => fileno $door);
        exec { $how[0] } map { $descriptor{$_} // $_ } @how or die "cannot start bwrap: $!\n";
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
    while (@how) { push @plan, [ splice @how, 0, 3 ] }
    build_root(\@plan, $disk_bytes);
    sys('sethostname', 'sandbox', 7);
    loopback_up();
    drop_capabilities();
    syswrite $status, "ready\n";
    close $status;
    run_init(fileno $door, $token, $ports);
}

# Bytes that the files of a sandbox hold. Each file system is counted once.
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

# Bytes that the processes of a sandbox hold, with $files. The cheap count takes shared pages once for each sharer, so one
# that is over the limit is checked against the kernel's proportional one. A process may hide that one from its own user.
sub memory_of {
    my ($root, $files, $limit) = @_;
    my $path = '/proc/self/fd/' . fileno $root;
    opendir my $folder, "$path/proc" or die "cannot look into a sandbox: $!\n";
    my @pids = grep { /^\d+$/ && !is_ours($_) } readdir $folder;
    my $kilobytes_of = sub {
        my ($pid, $name, $pattern) = @_;
        open my $file, '<', "$path/proc/$pid/$name" or return;
        my $text = do { local $/; <$file> } // return;
        my $kilobytes = 0;
        $kilobytes += $1 while $text =~ /$pattern/g;
        return $kilobytes;
    };
    my $resident = sub { $kilobytes_of->($_[0], 'status', qr/^Rss(?:Anon|Shmem):\s+(\d+)/m) // 0 };
    my $proportional = sub { $kilobytes_of->($_[0], 'smaps_rollup', qr/^Pss_(?:Anon|Shmem):\s+(\d+)/m) };
    my $bytes = $files;
    $bytes += 1024 * $resident->($_) for @pids;
    return $bytes if $bytes <= $limit;
    $bytes = $files;
    # What has ended meanwhile has neither.
    $bytes += 1024 * ($proportional->($_) // $resident->($_)) for @pids;
    return $bytes;
}

# In a container the launcher and the runner are among the processes that are seen. Elsewhere these numbers are others'.
my $is_container;
sub is_ours { my ($pid) = @_; return $is_container && ($pid == $$ || $pid == getppid) }

# Requests on stdin, events on stdout. Its end of file is the platform's death, and the sandboxes' with it.
sub run_launcher {
    my ($scratch, @sources) = @_;
    $0 = 'platform-sandbox-launcher';
    umask 022;
    $SIG{PIPE} = 'IGNORE';
    my $door = open_path("$scratch/door");
    stage(@sources) if $> == 0;
    sys('prctl', PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    my $tell = sub { my $text = join "\0", @_; write_all(\*STDOUT, pack 'N/a*', $text) };
    my $next_look = 0;
    my %boxes;    # id => { status, said, pid, end, root, limit, over }
    my $requests = '';

    $tell->('started');
    while (1) {
        1 while waitpid(-1, WNOHANG) > 0;
        my @boxes = values %boxes;
        my $wait = (grep { $_->{limit} } @boxes) ? ($next_look - milliseconds()) / 1000 : undef;
        my $handles = [ \*STDIN, map { grep { $_ } $_->{status}, $_->{end} } @boxes ];
        my ($readable) = wait_for($handles, [], defined $wait && $wait < 0 ? 0 : $wait);
        my $is_time = milliseconds() >= $next_look;
        $next_look = milliseconds() + WATCH_INTERVAL_MS if $is_time;

        for my $id (keys %boxes) {
            my $box = $boxes{$id};
            if ($box->{status} && is_in($readable, $box->{status})) {
                my $count = sysread $box->{status}, $box->{said}, CHUNK, length $box->{said};
                my ($pid) = $box->{said} =~ /"child-pid": (\d+)/;
                if ($pid && $box->{said} =~ /^ready$/m) {
                    my $ok = eval {
                        $box->{root} = open_path($is_container ? '/' : "/proc/$pid/root");
                        $box->{had} = $is_container ? files_of($box->{root}) : 0;
                        open $box->{end}, '<&=', sys($PIDFD_OPEN, 0 + $pid, 0) or die;
                        1;
                    };
                    delete $box->{status};
                    if ($ok) { $tell->('ready', $id) }
                    else     { $tell->('failed', $id, $@); delete $boxes{$id} }
                }
                elsif (!$count) { $tell->('failed', $id, $box->{said}); delete $boxes{$id} }
            }
            elsif ($box->{end} && is_in($readable, $box->{end})) { $tell->('gone', $id); delete $boxes{$id} }
            elsif ($box->{limit} && $is_time) {
                my $bytes = eval {
                    my $files = files_of($box->{root}) - $box->{had};
                    # Where no file system of its own stops it, the limit of its files does here.
                    $files > $box->{disk} ? $box->{limit} + 1 : memory_of($box->{root}, $files, $box->{limit});
                };
                # What cannot be watched must not run. Mostly it is ending already, which is no matter of memory.
                if (!defined $bytes) { kill_box($box) }
                elsif ($bytes <= $box->{limit}) { $box->{over} = 0 }
                elsif (!$box->{over}++) { $tell->('memory', $id) }
                elsif ($box->{over} > 5) { kill_box($box) }
            }
        }
        if (is_in($readable, \*STDIN)) {
            if (!sysread STDIN, $requests, CHUNK, length $requests) {
                kill_box($_) for values %boxes;
                unlink glob "$scratch/*";
                rmdir $scratch;
                exit 0;
            }
            while (my ($request, $id, @fields) = take_record(\$requests)) {
                if ($request eq 'start') {
                    pipe my $status, my $status_writer or die;
                    if ($fields[3] eq 'container') {
                        # Its commands have our uid: without this they could read and trace us.
                        sys('prctl', PR_SET_DUMPABLE, 0, 0, 0, 0);
                        $is_container = 1;
                    }
                    $boxes{$id} = { status => $status, said => '' };
                    my $pid = fork // next;
                    next if $pid;
                    eval { start_sandbox($status_writer, $door, @fields); 1 } or syswrite $status_writer, $@;
                    leave(1);
                }
                elsif ($request eq 'watch') { @{ $boxes{$id} }{qw(limit disk)} = @fields if $boxes{$id} }
                elsif ($request eq 'kill')  { kill_box($boxes{$id}) if $boxes{$id} }
            }
        }
    }
}

sub kill_box {
    my ($box) = @_;
    return unless $box->{end};
    syscall $PIDFD_SEND_SIGNAL, fileno $box->{end}, 9, 0, 0;
    # What it leaves behind is ours then, as no namespace ends with it.
    kill_tree() if $is_container;
}

run_launcher(@ARGV);

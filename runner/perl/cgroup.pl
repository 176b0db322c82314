# The cgroup of one sandbox, if the platform has a writable cgroup v2 (cgroup.ts). It has the limits and two child
# groups: `own` for init and its supervisors, `commands` for the rest. On an out-of-memory event the kernel kills
# `commands` as a unit, so that the sandbox survives. https://docs.kernel.org/admin-guide/cgroup-v2.html
use strict;
use warnings;

sub set_group { my ($group, $name, $value) = @_; write_file("$group/$name", $value) }

# Makes the groups. Returns the handle through which a command enters its own group, under any user id.
sub make_group {
    my ($group) = @_;
    for my $path ($group, "$group/own", "$group/commands") { mkdir $path or die "cannot make $path: $!\n" }
    set_group($group, 'cgroup.subtree_control', '+memory +pids') if -e "$group/cgroup.subtree_control";
    set_group("$group/commands", 'memory.oom.group', 1);
    open my $entrance, '>', "$group/commands/cgroup.procs" or die "cannot open the group of commands: $!\n";
    return $entrance;
}

# $pid 0 is the calling process.
sub enter_own_group { my ($group, $pid) = @_; set_group("$group/own", 'cgroup.procs', $pid) }

sub limit_group {
    my ($group, $memory, $processes) = @_;
    set_group($group, 'memory.max', $memory);
    set_group($group, 'memory.swap.max', 0) if -e "$group/memory.swap.max";
    set_group("$group/commands", 'pids.max', $processes);
}

# Returns how many processes of the group the kernel has killed for lack of memory.
sub memory_kills {
    my ($group) = @_;
    open my $file, '<', "$group/memory.events" or return 0;
    my $text = do { local $/; <$file> } // '';
    return $text =~ /^oom_kill (\d+)$/m ? $1 : 0;
}

sub kill_group { my ($group) = @_; eval { set_group($group, 'cgroup.kill', 1) } }

# Returns whether the group was removed. Processes that are ending keep it for a moment.
sub remove_group {
    my ($group) = @_;
    rmdir $_ for "$group/commands", "$group/own", $group;
    return !-e $group;
}

# Called when the launcher ends. Waits up to a second for ending processes; the platform's next start removes the rest.
sub remove_all {
    my ($parent, @groups) = @_;
    for (1 .. 100) {
        @groups = grep { !remove_group($_) } @groups;
        last if !@groups && rmdir $parent;
        select undef, undef, undef, 0.01;
    }
}

1;

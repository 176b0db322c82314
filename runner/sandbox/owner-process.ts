import { readFileSync } from 'node:fs';

/**
 * Returns a name prefix for things that a process leaves behind if it is killed: `<pid>.<start time>`. The pid alone is
 * not unique: in a container the platform has the same one after each start.
 */
export function ownerName(pid = process.pid): string {
  const startedAt = startOf(pid);
  return startedAt === undefined ? String(pid) : `${pid}.${startedAt}`;
}

/** Whether the process that owns `name`, which starts with its {@link ownerName} and a hyphen, is still running. */
export function isOwnerAlive(name: string): boolean {
  const [pid, startedAt] = name.split('-')[0]!.split('.');
  try {
    process.kill(Number(pid), 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false;
  }
  const found = startOf(Number(pid));
  return startedAt === undefined || found === undefined || found === startedAt;
}

/**
 * Returns field 22 of https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html in compact form, or `undefined` if the
 * file does not exist.
 */
function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The second field, the program's name, may contain spaces and parentheses.
    const ticks = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
    return Number(ticks).toString(36);
  } catch {
    return undefined;
  }
}

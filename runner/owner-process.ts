/** True when the process that owns `name`, of the form `<pid>-...`, still runs. */
export function isOwnerAlive(name: string): boolean {
  try {
    process.kill(Number.parseInt(name, 10), 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

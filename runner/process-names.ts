/** True when `name`, of the form `<pid>-...`, belongs to a process that still runs. */
export function isAlive(name: string): boolean {
  try {
    process.kill(Number.parseInt(name, 10), 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

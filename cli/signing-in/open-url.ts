import { spawn } from 'node:child_process';

/** Opens an address in the user's browser. A failure shows nowhere: callers print the address as well. */
export function openUrl(url: string): void {
  const [program, ...args] = OPENERS[process.platform] ?? ['xdg-open'];
  const child = spawn(program!, [...args, url], { stdio: 'ignore', detached: true });
  child.on('error', () => {});
  child.unref();
}

const OPENERS: { readonly [platform: string]: readonly string[] } = {
  darwin: ['open'],
  // Not `start` of the shell, which would read signs of the address as its own.
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
};

/** Whether there may be a browser on this machine that the user sits at. */
export function mayHaveBrowser(env: Readonly<Record<string, string | undefined>>): boolean {
  if (env.SSH_CONNECTION || env.SSH_TTY) return false;
  return process.platform !== 'linux' || Boolean(env.DISPLAY || env.WAYLAND_DISPLAY || env.WSL_DISTRO_NAME);
}

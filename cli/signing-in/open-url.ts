import { spawn } from 'node:child_process';

/** Opens a URL in the user's browser. Failures are ignored, because callers also print the URL. */
export function openUrl(url: string): void {
  const [program, ...args] = OPENERS[process.platform] ?? ['xdg-open'];
  const child = spawn(program!, [...args, url], { stdio: 'ignore', detached: true });
  child.on('error', () => {});
  child.unref();
}

const OPENERS: { readonly [platform: string]: readonly string[] } = {
  darwin: ['open'],
  // Not the shell's `start`, which would interpret special characters of the URL.
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
};

/** Returns whether the user may have a browser on this machine. */
export function mayHaveBrowser(env: Readonly<Record<string, string | undefined>>): boolean {
  if (env.SSH_CONNECTION || env.SSH_TTY) return false;
  return process.platform !== 'linux' || Boolean(env.DISPLAY || env.WAYLAND_DISPLAY || env.WSL_DISTRO_NAME);
}

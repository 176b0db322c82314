import { constants, setPriority } from 'node:os';
import { configFolder } from '#client/profiles.ts';
import { EXIT } from '#client/usage-error.ts';
import { runCli } from './program.ts';
import { openUrl } from './signing-in/open-url.ts';
import { useProxy } from './signing-in/proxy.ts';

// The reader of a pipe may exit early, as in `platform runs | head`.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(EXIT.notRead);
    throw error;
  });
}

// The only code that reads arguments and environment.
// biome-ignore lint/style/noProcessEnv: see above.
await useProxy(process.env);
process.exitCode = await runCli({
  argv: process.argv.slice(2),
  // biome-ignore lint/style/noProcessEnv: see above.
  env: process.env,
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  // Accessed lazily: the first access to `fetch` loads Node's HTTP client, which `--help` does not need.
  fetch: (...request) => fetch(...request),
  configFolder: configFolder(),
  cwd: process.cwd(),
  platform: process.platform,
  onInterrupt(listener) {
    process.on('SIGINT', listener);
    return () => void process.off('SIGINT', listener);
  },
  exit: (status) => process.exit(status),
  yieldProcessors: () => setPriority(constants.priority.PRIORITY_LOW),
  openUrl,
});

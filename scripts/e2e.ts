/**
 * `npm run e2e -- --base-url <address> --key <key>`: the end-to-end suite against a platform that is running, here or in
 * an AWS account. The key is one of the owner of a workspace called `acme` that holds nothing yet. Cases that need an
 * operator's rights or a scripted model are skipped, with the reason.
 */
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: {
    'base-url': { type: 'string' },
    key: { type: 'string' },
    interpreters: { type: 'string', default: 'python,node' },
  },
});
if (!values['base-url'] || !values.key) {
  console.error('usage: npm run e2e -- --base-url <address> --key <key> [--interpreters python,node]');
  process.exit(2);
}
const { status } = spawnSync('vitest', ['run', '--project', 'elsewhere', '--reporter', 'verbose'], {
  stdio: 'inherit',
  env: {
    ...process.env,
    PLATFORM_E2E_URL: values['base-url'],
    PLATFORM_E2E_KEY: values.key,
    PLATFORM_E2E_INTERPRETERS: values.interpreters,
  },
});
process.exit(status ?? 1);

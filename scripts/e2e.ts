/**
 * `npm run e2e -- --base-url <address> --key <key>`: runs the end-to-end suite against a running platform, here or in
 * an AWS account. The key belongs to the owner of a workspace `acme` on a platform that is otherwise empty. Cases that
 * need operator privileges are skipped, with the reason, as are those that need a scripted model, unless the platform
 * sends model requests to `--model-port` of this machine (docs/aws.md).
 */
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: {
    'base-url': { type: 'string' },
    key: { type: 'string' },
    interpreters: { type: 'string', default: 'python,node' },
    'model-port': { type: 'string' },
  },
});
if (!values['base-url'] || !values.key) {
  console.error('usage: npm run e2e -- --base-url <address> --key <key> [--interpreters python,node] [--model-port N]');
  process.exit(2);
}
const { status } = spawnSync('vitest', ['run', '--project', 'remote', '--reporter', 'verbose'], {
  stdio: 'inherit',
  env: {
    ...process.env,
    PLATFORM_E2E_URL: values['base-url'],
    PLATFORM_E2E_KEY: values.key,
    PLATFORM_E2E_INTERPRETERS: values.interpreters,
    PLATFORM_E2E_MODEL_PORT: values['model-port'],
  },
});
process.exit(status ?? 1);

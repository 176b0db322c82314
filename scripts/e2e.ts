/**
 * `npm run e2e -- --base-url <address> --key <key>`: the end-to-end suite against a platform that is running, here or in
 * an AWS account. The key is one of the owner of a workspace called `acme`, of a platform that holds nothing else yet. Cases
 * that need an operator's rights are skipped, with the reason, and so are those that need a scripted model, unless the
 * platform asks for its models at `--model-port` of this machine (docs/aws.md).
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

import { parseArgs } from 'node:util';
import { awsDeps } from '#aws/all-deps.ts';
import { parseAwsConfig } from '#aws/config.ts';
import { bootstrap, createOwnerKey } from '#core/accounts/workspaces/bootstrap.ts';
import { loadStage, tablePrefixOf } from '#lib/config.ts';

/**
 * `npm run aws:key -- <stage> [--another]`, with credentials that may use the stage's main table: makes the first
 * workspace and prints its owner's API key, once. PLATFORM_WORKSPACE and PLATFORM_OWNER_EMAIL say whose. Run again, it
 * changes nothing, unless asked for another key of the same owner.
 */
const { positionals, values } = parseArgs({ allowPositionals: true, options: { another: { type: 'boolean' } } });
const stage = await loadStage(positionals[0] ?? 'dev');
const deps = awsDeps(parseAwsConfig({ ...process.env, PLATFORM_TABLE_PREFIX: tablePrefixOf(stage) }));
try {
  const first = await bootstrap(deps);
  if (first === undefined && !values.another) {
    process.stderr.write(
      `The stage "${stage.name}" has its first workspace already, and its key was shown then.\n` +
        `For another key of its owner: npm run aws:key -- ${stage.name} --another\n`,
    );
  } else {
    process.stdout.write(`${first ?? (await createOwnerKey(deps, 'made by the operator')).key}\n`);
  }
} catch (error) {
  if (!(error instanceof Error && error.name === 'ResourceNotFoundException')) throw error;
  process.stderr.write(
    `There is no table ${tablePrefixOf(stage)}main: deploy the stage first (npx cdk deploy --all -c stage=${stage.name}), ` +
      'and set AWS_REGION to where it is.\n',
  );
  process.exitCode = 1;
}

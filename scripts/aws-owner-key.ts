import { awsDeps } from '#aws/all-deps.ts';
import { parseConfig } from '#core/config.ts';
import { bootstrap, createOwnerKey } from '#core/workspaces/bootstrap.ts';
import { loadStage, tablePrefixOf } from '#lib/config.ts';

/**
 * `npm run aws:key -- <stage>`, with credentials that may use the stage's main table: sets a deployed platform up and
 * prints its owner's first API key, or, when that was done before, a further one. PLATFORM_WORKSPACE and
 * PLATFORM_OWNER_EMAIL say whose.
 */
const stage = await loadStage(process.argv[2] ?? 'dev');
const deps = awsDeps(parseConfig({ ...process.env, PLATFORM_TABLE_PREFIX: tablePrefixOf(stage) }));
const key = (await bootstrap(deps)) ?? (await createOwnerKey(deps, 'made by the operator')).key;
process.stdout.write(`${key}\n`);

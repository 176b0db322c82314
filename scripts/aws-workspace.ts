import { parseArgs } from 'node:util';
import { awsDeps } from '#aws/all-deps.ts';
import { parseAwsConfig } from '#aws/config.ts';
import { grantCreditsTo, setPlanOf } from '#core/billing/operator/operate.ts';
import { loadStage, platformNameOf, tablePrefixOf } from '#lib/config.ts';
import { isMoveAction } from '#local/moves.ts';
import { runMoves } from './moves.ts';

/**
 * `npm run aws:workspace -- <stage> [--set-plan <slug>=<plan>] [--grant-credits <slug>=<cents>]`. Requires credentials
 * with access to the main table of the stage. With an action first, moves a workspace to another cell (`moves.ts`).
 */
if (isMoveAction(process.argv[2])) {
  await runMoves({
    command: 'npm run aws:workspace --',
    target: '<stage>',
    platformOf: async (stage) => platformNameOf(await loadStage(stage)),
  });
} else {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { 'set-plan': { type: 'string' }, 'grant-credits': { type: 'string' } },
  });
  const stage = await loadStage(positionals[0] ?? 'dev');
  const deps = awsDeps(parseAwsConfig({ ...process.env, PLATFORM_TABLE_PREFIX: tablePrefixOf(stage) }));
  const { 'set-plan': plan, 'grant-credits': credits } = values;
  if (plan !== undefined) process.stdout.write(`${await setPlanOf(deps, plan)}\n`);
  if (credits !== undefined) process.stdout.write(`${await grantCreditsTo(deps, credits)}\n`);
}

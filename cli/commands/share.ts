import { UsageError } from '#client/usage-error.ts';
import type { Configure } from '../shared/cli.ts';
import { members, table } from '../shared/output.ts';
import { runParams } from '../shared/run-params.ts';

const RUN = 'Run ID or prefix, request ID, or agent name (its latest run)';

const share: Configure = (command, cli) => {
  command
    .command('create')
    .description('Create a read-only link to a run, for people without an account; it is shown only once')
    .argument('<run>', RUN)
    .option('--days <number>', 'Days for which the link is valid, 1 to 30 (default: 7)')
    .addHelpText('after', '\nExample:\n  $ platform share create hello --days 3')
    .action(async (run, { days }) => {
      if (days !== undefined && !/^\d+$/.test(days)) {
        throw new UsageError(`Invalid --days "${days}": use a number from 1 to 30.`);
      }
      const body = days === undefined ? {} : { expires_in_days: Number(days) };
      const made = await (await cli.client()).createRunShare({ params: await runParams(cli, run), body });
      cli.output.result(made, ({ url }) => url);
      cli.output.note(`Anyone who has the link can see run ${made.run_id.slice(0, 8)} until ${made.expires_at}.`);
    });
  command
    .command('list')
    .description('List the valid links to a run')
    .argument('<run>', RUN)
    .addHelpText('after', '\nExample:\n  $ platform share list hello')
    .action(async (run) => {
      const answer = await (await cli.client()).listRunShares({ params: await runParams(cli, run) });
      cli.output.result(answer, ({ shares }) => {
        if (shares.length === 0) cli.output.note('No results.');
        const rows = shares.map(({ id, created_at, expires_at }) => [id, created_at, expires_at]);
        return shares.length === 0 ? '' : table(['id', 'created', 'expires'], rows, cli.output.width);
      });
    });
  command
    .command('revoke')
    .description('Revoke a link to a run')
    .argument('<run>', RUN)
    .argument('<link>', 'ID of the link, as `platform share list` shows it')
    .addHelpText('after', '\nExample:\n  $ platform share revoke RUN_ID SHARE_ID --yes')
    .action(async (run, share_id) => {
      await cli.confirm(`Revoke the link ${share_id}`);
      const params = { ...(await runParams(cli, run)), share_id };
      cli.output.result(await (await cli.client()).revokeRunShare({ params }), (answer) => members(answer));
    });
};

export default share;

import { UsageError } from '#client/usage-error.ts';
import { operations } from '../operation.ts';
import type { Cli, Configure } from '../shared/cli.ts';
import { members, table } from '../shared/output.ts';
import { runParams } from '../shared/run-params.ts';

const RUN = 'Run ID or prefix, request ID, or agent name (its latest run)';
const SOURCE = 'Who or what scored, such as user or judge (default: api)';

const scores: Configure = (command, cli) => {
  command
    .command('set')
    .description('Score a run; a score with the same name and source is replaced')
    .argument('<run>', RUN)
    .argument('<name>', 'What is scored, such as helpful')
    .argument('<score>', 'A number, or a label such as "too short"')
    .option('--comment <text>', 'Text for people who read the run')
    .option('--source <source>', SOURCE)
    .addHelpText('after', '\nExample:\n  $ platform scores set RUN_ID helpful 1 --comment "Just right."')
    .action(async (run, name, given, { comment, source }) => {
      const params = await runParams(cli, run);
      const made = await (await cli.client()).scoreRun({ params, body: { name, ...scoreOf(given), comment, source } });
      cli.output.result(made, () => `Run ${params.run_id.slice(0, 8)} has the score ${name} = ${given}`);
    });
  command
    .command('show')
    .description('List the scores of a run')
    .argument('<run>', RUN)
    .addHelpText('after', '\nExample:\n  $ platform scores show RUN_ID')
    .action(async (run) => {
      const answer = await (await cli.client()).listRunScores({ params: await runParams(cli, run) });
      cli.output.result(answer, ({ scores: given }) => tableOf(cli, given));
    });
  command
    .command('delete')
    .description('Delete a score of a run')
    .argument('<run>', RUN)
    .argument('<name>', 'Name of the score')
    .option('--source <source>', SOURCE)
    .addHelpText('after', '\nExample:\n  $ platform scores delete RUN_ID helpful --yes')
    .action(async (run, score, { source }) => {
      await cli.confirm(`Delete the score ${score}`);
      const params = { ...(await runParams(cli, run)), score };
      cli.output.result(await (await cli.client()).deleteRunScore({ params, query: { source } }), members);
    });
  operations([
    {
      name: 'list',
      operation: 'listScores',
      args: ['agent'],
      list: 'runs',
      columns: ['run_id', 'agent_version', 'started_at', 'scores'],
      cells: { scores: ({ scores: given }) => (given as readonly Given[]).map(shortOf).join(', ') },
      example: 'scores list main/hello --name helpful --max 0.5',
    },
    {
      name: 'series',
      operation: 'getScoreSeries',
      args: ['agent'],
      list: 'points',
      columns: ['day', 'version', 'name', 'source', 'count', 'mean', 'labels'],
      cells: {
        labels: ({ labels }) =>
          (labels as readonly { label: string; count: number }[])
            .map(({ label, count }) => `${label} ${count}`)
            .join(', '),
      },
      example: 'scores series main/hello --name helpful',
    },
  ])(command, cli);
};

interface Given {
  readonly name: string;
  readonly source: string;
  readonly value: number | null;
  readonly label: string | null;
  readonly comment: string | null;
}

/** Reads a number if the text is one, otherwise a label. */
function scoreOf(text: string): { readonly value: number } | { readonly label: string } {
  if (text.trim() === '') throw new UsageError('The score is empty: give a number or a label.');
  const value = Number(text);
  return Number.isNaN(value) ? { label: text } : { value };
}

const shortOf = ({ name, value, label }: Given): string => `${name} ${value ?? label}`;

function tableOf(cli: Cli, given: readonly Given[]): string {
  if (given.length === 0) {
    cli.output.note('No results.');
    return '';
  }
  const rows = given.map(({ name, source, value, label, comment }) => [
    name,
    source,
    String(value ?? label),
    comment ?? '',
  ]);
  return table(['name', 'source', 'score', 'comment'], rows, cli.output.width);
}

export default scores;

import { UsageError } from '#client/usage-error.ts';
import { routes } from '#core/api/routes.ts';
import { pathParameters, type Route } from '#core/http/route.ts';
import type { Configure } from '../shared/cli.ts';
import { readJson } from '../shared/input.ts';
import { table } from '../shared/output.ts';
import { routeOf } from '../shared/route-of.ts';
import { isResponse } from '../signing-in/connection.ts';

const api: Configure = (command, cli) => {
  const collect = (value: string, all: string[]): string[] => [...all, value];
  command
    .argument('[operation]', 'Operation ID, such as listRuns')
    .option('-p, --param <name=value>', 'Path or query parameter (repeatable)', collect, [])
    .option('--input <json>', 'Request body: JSON, @file, or - for stdin')
    .option('--list', 'List all operations')
    .addHelpText('after', '\nExamples:\n  $ platform api --list\n  $ platform api listRuns -p limit=3')
    .action(async (operation, { param, input, list = false }) => {
      if (list || operation === undefined) return void cli.output.result(allOperations(), inColumns);
      const route = routeOf(operation);
      const given = new Map(param.map(readParam));
      const names = pathParameters(route.path);
      const params: Record<string, string> = {};
      const client = await cli.clientFor(route);
      for (const name of names) {
        const value = given.get(name) ?? (name === 'workspace_id' ? await cli.workspaceId() : undefined);
        if (value === undefined) throw new UsageError(`Missing parameter of ${operation}: -p ${name}=VALUE.`);
        params[name] = value;
      }
      const query = Object.fromEntries([...given].filter(([name]) => !names.includes(name)));
      const body = input === undefined ? undefined : await readJson(cli.host, input);
      const call = client[route.operationId as 'getHealth'] as unknown as (args: object) => Promise<unknown>;
      const answer = await call({ params, query, body });
      if (isResponse(answer)) cli.output.raw(await answer.text());
      else cli.output.result(answer);
    });

  const allOperations = () =>
    (routes as readonly Route[]).map(({ operationId, method, path, summary }) => ({
      operationId,
      method,
      path,
      summary,
    }));
  const inColumns = (all: ReturnType<typeof allOperations>) =>
    table(
      ['operation', 'method', 'path', 'summary'],
      all.map((row) => Object.values(row)),
      cli.output.width,
    );
};

function readParam(text: string): readonly [string, string] {
  const at = text.indexOf('=');
  if (at < 1) throw new UsageError(`Invalid parameter "${text}": expected name=value.`);
  return [text.slice(0, at), text.slice(at + 1)];
}

export default api;

import { resolve } from 'node:path';
import { Argument } from '@commander-js/extra-typings';
import { UsageError } from '#client/usage-error.ts';
import { visibleVersion } from '../shared/agent-reference.ts';
import type { Configure } from '../shared/cli.ts';
import { agentClient, CLIENT_LANGUAGES, CLIENT_MARK } from '../typing/agent-client.ts';
import { replaceWritten } from '../typing/written-file.ts';

const client: Configure = (command, cli) => {
  command
    .addArgument(new Argument('<language>', 'Language of the client').choices(CLIENT_LANGUAGES))
    .argument('<agent>', 'Agent or version: agent, agent@v2, org/agent or org/agent@v2')
    .option('-o, --out <file>', 'Write to a file; it replaces only a file that this command wrote')
    .addHelpText(
      'after',
      '\nExamples:\n  $ platform client ts hello --out hello.ts\n  $ platform client python acme/hello@v2 --out hello.py',
    )
    .action(async (language, text, { out: file }) => {
      const { org_slug, name, version, input_schema, output_schema, ...agent } = await visibleVersion(cli, text);
      const shown = `${org_slug}/${name}@${version}`;
      if (agent.execution_engine === null || agent.run_mode === 'always_on') {
        const why = agent.execution_engine === null ? 'is a skill' : 'is always on';
        throw new UsageError(`${shown} ${why}: it is not called, so it has no client.`);
      }
      const source = agentClient(
        {
          version: shown,
          // A program that names no version follows the agent.
          called: text.includes('@') ? version : 'latest',
          endpoints: [...new Set([agent.default_endpoint, 'run'])],
          input: input_schema,
          output: output_schema,
          url: (await cli.connection()).url,
        },
        language,
      );
      if (file !== undefined) {
        await replaceWritten(resolve(cli.host.cwd, file), source, { mark: CLIENT_MARK, command: 'platform client' });
        return cli.output.result({ agent: shown, language, file }, () => `Wrote a client of ${shown} to ${file}.`);
      }
      if (cli.options.json) return cli.output.result({ agent: shown, language, source });
      cli.output.raw(source);
    });
};

export default client;

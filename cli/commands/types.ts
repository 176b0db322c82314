import { resolve } from 'node:path';
import { Option } from '@commander-js/extra-typings';
import { visibleVersion } from '../shared/agent-reference.ts';
import type { Configure } from '../shared/cli.ts';
import { agentTypes, LANGUAGES, MARK } from '../typing/agent-types.ts';
import { replaceWritten } from '../typing/written-file.ts';

const types: Configure = (command, cli) => {
  command
    .argument('<agent>', 'Agent or version: agent, agent@v2, org/agent or org/agent@v2')
    .addOption(
      new Option('--language <language>', 'Language (default: by the file name, else typescript)').choices(LANGUAGES),
    )
    .option('-o, --output <file>', 'Write to a file; it replaces only a file that this command wrote')
    .addHelpText(
      'after',
      '\nExamples:\n  $ platform types hello --output hello.types.ts\n  $ platform types hello --output hello_types.py',
    )
    .action(async (text, { language: given, output: file }) => {
      const language = given ?? (file?.endsWith('.py') ? 'python' : 'typescript');
      const { org_slug, name, version, input_schema, output_schema } = await visibleVersion(cli, text);
      const agent = `${org_slug}/${name}@${version}`;
      // Types of one version must not become those of the latest.
      const names = text.includes('@') ? [agent] : [`${org_slug}/${name}`, agent];
      const source = agentTypes({ names, version: agent, input: input_schema, output: output_schema }, language);
      if (file !== undefined) {
        await replaceWritten(resolve(cli.host.cwd, file), source, { mark: MARK, command: 'platform types' });
        return cli.output.result({ agent, language, file }, () => `Wrote the types of ${agent} to ${file}.`);
      }
      if (cli.options.json) return cli.output.result({ agent, language, source });
      cli.output.raw(source);
    });
};

export default types;

import { UsageError } from '#client/usage-error.ts';
import { ownVersions } from '../shared/agent-reference.ts';
import type { Configure } from '../shared/cli.ts';
import { readJson } from '../shared/input.ts';
import { members } from '../shared/output.ts';

const update: Configure = (command, cli) => {
  command
    .argument('<agent>', 'Agent (its latest version) or agent@v2')
    .argument('[json]', 'Changes: JSON, @file, or - for stdin; options take precedence')
    .option('--description <text>', 'New description')
    .option('--tags <list>', 'Comma-separated tags; replaces the current tags')
    .option('--public', 'Make the agent public')
    .option('--no-public', 'Make the agent private')
    .addHelpText(
      'after',
      `
Examples:
  $ platform update hello --description 'Greets people' --tags greeting,demo
  $ platform update hello '{"timeout_seconds": 60}'`,
    )
    .action(async (text, json, options) => {
      const tags = options.tags?.split(',').map((tag) => tag.trim());
      const body = {
        ...(json !== undefined && ((await readJson(cli.host, json)) as Record<string, unknown>)),
        ...(options.description !== undefined && { description: options.description }),
        ...(tags && { tags: tags.filter((tag) => tag !== '') }),
        ...(options.public !== undefined && { is_public: options.public }),
      };
      if (Object.keys(body).length === 0) throw new UsageError('Nothing to change: pass an option or JSON.');
      const [version] = await ownVersions(cli, text);
      const changed = await (await cli.client()).updateAgent({ params: { id: version!.id }, body });
      cli.output.result(changed, (shown) => members({ ...shown }));
    });
};

export default update;

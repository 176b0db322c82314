import { join, resolve } from 'node:path';
import { UsageError } from '#client/usage-error.ts';
import { readSource } from '../publishing/agent-source.ts';
import { writeFiles } from '../publishing/write-files.ts';
import { readReference } from '../shared/agent-reference.ts';
import type { Configure } from '../shared/cli.ts';
import { table } from '../shared/output.ts';

const skill: Configure = (command, cli) => {
  command
    .command('list')
    .description('List the skills of the workspace, or all public skills')
    .option('--public', 'List the public skills of all workspaces')
    .addHelpText('after', '\nExample:\n  $ platform skill list')
    .action(async (options) => {
      const client = await cli.client();
      const all = options.public
        ? await client.listPublicAgents({ query: { type: 'skill' } })
        : (await client.listAgents({})).filter(({ type }) => type === 'skill');
      cli.output.result(all, (skills) => {
        if (skills.length === 0) cli.output.note('No skills. Create one with `platform init NAME --template skill`.');
        const rows = skills.map((each) => [`${each.org_slug}/${each.name}`, each.version, each.description ?? '']);
        return table(['skill', 'version', 'description'], rows, cli.output.width);
      });
    });

  command
    .command('install')
    .description('Install a skill for a coding agent')
    .argument('<skill>', 'Skill or version: skill, skill@v2, org/skill or org/skill@v2')
    .option('--to <folder>', 'Folder to install to; Claude Code uses .claude/skills', '.agents/skills')
    .option('--force', 'Overwrite existing files')
    .addHelpText('after', '\nExample:\n  $ platform skill install reply-style --to .claude/skills')
    .action(async (text, options) => {
      const { agent: name } = await readReference(cli, text);
      const source = await readSource(cli, text);
      if (source.type !== 'skill') {
        throw new UsageError(`${source.agent} is not a skill.`, {
          hint: 'Use `platform pull` to download an agent.',
        });
      }
      const folder = join(options.to, name);
      await writeFiles(resolve(cli.host.cwd, folder), source.files, options);
      const result = { skill: source.agent, folder, files: [...source.files.keys()].sort() };
      cli.output.result(result, () => `Installed ${source.agent} in ${folder}.`);
    });
};

export default skill;

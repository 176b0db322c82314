import { join, resolve } from 'node:path';
import { UsageError } from '#client/usage-error.ts';
import { readSource } from '../publishing/agent-source.ts';
import { type FoundSkill, isSkillSource, readSkillSource } from '../publishing/skill-source.ts';
import { writeFiles } from '../publishing/write-files.ts';
import { readReference } from '../shared/agent-reference.ts';
import type { Cli, Configure } from '../shared/cli.ts';
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
    .argument('<skill>', 'Skill of the platform (skill, org/skill, org/skill@v2), folder, .zip, or https address')
    .option('--to <folder>', 'Folder to install to; Claude Code uses .claude/skills', '.agents/skills')
    .option('--name <name>', 'Skill to install, if the folder or archive has several')
    .option('--all', 'Install all skills of the folder or archive')
    .option('--force', 'Overwrite existing files')
    .addHelpText(
      'after',
      `
Start the path of a folder with "." or "/". An address leads to a .zip file or to a repository on GitHub or GitLab. Add
"#" and a folder to search only that folder of a .zip file. To publish a skill that you installed: \`platform publish .agents/skills/NAME\`.

Examples:
  $ platform skill install reply-style --to .claude/skills
  $ platform skill install ./skills.zip --name pdf
  $ platform skill install https://github.com/owner/repository/tree/main/skills --all`,
    )
    .action(async (text, options) => {
      const installed = isSkillSource(text)
        ? choose(text, await readSkillSource(cli, text), options)
        : [await skillOfPlatform(cli, text, options)];
      const results: Installed[] = [];
      for (const { skill, name, files } of installed) {
        const folder = join(options.to, name);
        await writeFiles(resolve(cli.host.cwd, folder), files, options);
        results.push({ skill, folder, files: [...files.keys()].sort() });
      }
      cli.output.result(options.all ? results : results[0]!, () =>
        results.map((each) => `Installed ${each.skill} in ${each.folder}.`).join('\n'),
      );
    });
};

interface Installed {
  readonly skill: string;
  readonly folder: string;
  readonly files: readonly string[];
}

interface Choice {
  readonly name?: string | undefined;
  readonly all?: boolean | undefined;
}

/** Returns the chosen skills of a source. Throws UsageError that lists the names if the choice is not clear. */
function choose(text: string, found: readonly FoundSkill[], { name, all }: Choice) {
  const chosen = all ? found : name === undefined ? found : found.filter((each) => each.name === name);
  const names = found.map((each) => each.name).join(', ');
  if (chosen.length === 0) throw new UsageError(`${text} has no skill "${name}". Its skills: ${names}.`);
  if (chosen.length > 1 && !all) {
    throw new UsageError(`${text} has ${found.length} skills: ${names}.`, {
      hint: 'Choose one with --name NAME, or install --all.',
    });
  }
  const twice = chosen.find((each, index) => chosen.findIndex((other) => other.name === each.name) !== index);
  if (twice !== undefined) throw new UsageError(`${text} has two skills with the name "${twice.name}".`);
  return chosen.map((each) => ({ skill: each.name, name: each.name, files: each.files }));
}

async function skillOfPlatform(cli: Cli, text: string, { name, all }: Choice) {
  if (name !== undefined || all) {
    throw new UsageError('--name and --all are for a folder, a .zip or an address.', {
      hint: `For a folder, write ./${text}.`,
    });
  }
  const { agent } = await readReference(cli, text);
  const source = await readSource(cli, text);
  if (source.type !== 'skill') {
    throw new UsageError(`${source.agent} is not a skill.`, {
      hint: 'Use `platform pull` to download an agent.',
    });
  }
  return { skill: source.agent, name: agent, files: source.files };
}

export default skill;

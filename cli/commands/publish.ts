import type { Cli, Configure } from '../cli.ts';
import { UsageError } from '../failure.ts';
import { readFolder } from '../read-folder.ts';
import { uploadBundle } from '../upload-bundle.ts';

const publish: Configure = (command, cli) => {
  command
    .argument('[folder]', 'the agent’s folder', '.')
    .option('--dry-run', 'check everything and publish nothing')
    .option('--public', 'everybody may find and call it')
    .addHelpText('after', '\nExample:\n  $ platform publish ./hello')
    .action(async (folder: string, { dryRun = false, public: isPublic }: { dryRun?: boolean; public?: boolean }) => {
      const read = await readFolder(cli, folder);
      const body = { ...read.body, ...(isPublic && { is_public: true }) };
      const client = await cli.client();
      const checked = await client.validateAgent({ body });
      for (const warning of checked.warnings) cli.output.warn(warning);
      if (!checked.valid) {
        throw new UsageError(
          `${folder} cannot be published:\n${checked.errors.map((text) => `  - ${text}`).join('\n')}`,
        );
      }
      const preview = await client.previewAgent({ query: { name: body.name } });
      const size = read.bundle?.byteLength ?? 0;
      if (dryRun) {
        const planned = { ...preview, bundle_bytes: size, dry_run: true };
        return void cli.output.result(
          planned,
          () => `Would publish ${preview.org_slug}/${body.name}@${preview.next_version}${inKb(size)}.`,
        );
      }
      const made = await client.createAgent({ body });
      const { agent, services_updated, service_key } = made;
      const name = `${agent.org_slug}/${agent.name}@${agent.version}`;
      if (read.bundle !== undefined) {
        cli.output.note(`uploading${inKb(size)}; dependencies are installed before it can run`);
        await uploadBundle(client, agent.id, read.bundle);
      }
      const missing = await missingSecrets(cli, agent.required_secrets);
      const url = `${(await cli.connection()).url}/${agent.org_slug}/${agent.name}/latest/${agent.default_endpoint}`;
      cli.output.result({ ...made, url, missing_secrets: missing }, () => `Published ${name}\n${url}`);
      if (service_key !== undefined && !cli.output.isJson) {
        cli.output.note(`Key with which the agent calls others, shown once: ${service_key}`);
      }
      if (services_updated > 0) cli.output.note(`${services_updated} services moved to it.`);
      for (const secret of missing)
        cli.output.warn(`It needs the secret ${secret}: \`platform secrets set ${secret}\`.`);
      cli.output.note(`Call it with \`platform run ${agent.name}\`.`);
    });
};

const inKb = (bytes: number): string => (bytes === 0 ? '' : `, ${(bytes / 1024).toFixed(1)} KB of code`);

async function missingSecrets(cli: Cli, required: readonly string[]): Promise<string[]> {
  if (required.length === 0) return [];
  const params = { workspace_id: await cli.workspaceId() };
  const { secrets } = await (await cli.client()).listSecrets({ params });
  return required.filter((name) => !secrets.some((secret) => secret.name === name));
}

export default publish;

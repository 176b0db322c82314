import { operations } from '../operation.ts';
import type { Configure } from '../shared/cli.ts';
import { readBytes } from '../shared/input.ts';

const memory: Configure = (command, cli) => {
  operations([
    {
      name: 'list',
      operation: 'listMemory',
      list: 'documents',
      columns: ['name', 'version', 'size_bytes', 'updated_at', 'updated_by'],
      named: { tenant_id: 'tenant' },
      example: 'memory list --tenant acme',
    },
    {
      name: 'show',
      operation: 'getMemory',
      one: 'text',
      named: { tenant_id: 'tenant' },
      example: 'memory show customers/acme.md',
    },
    {
      name: 'delete',
      operation: 'deleteMemory',
      confirm: 'Delete the document',
      named: { tenant_id: 'tenant' },
      example: 'memory delete customers/acme.md --yes',
    },
    {
      name: 'tenants',
      operation: 'listMemoryTenants',
      list: 'tenants',
      columns: ['tenant_id', 'documents'],
      example: 'memory tenants',
    },
    {
      name: 'erase',
      operation: 'eraseMemory',
      confirm: 'Erase all documents of this memory',
      named: { tenant_id: 'tenant' },
      example: 'memory erase --tenant acme --yes',
    },
  ])(command, cli);
  command
    .command('set')
    .description('Create or replace a document')
    .argument('<document>', 'Name of the document, such as customers/acme.md')
    .argument('<text>', 'Markdown, @file, or - for stdin')
    .option('--tenant <id>', 'The memory of this tenant. Default: that of the workspace itself.')
    .option('--if-version <number>', 'Fail unless the document still has this version; 0: unless it is new', Number)
    .addHelpText('after', '\nExample:\n  $ platform memory set customers/acme.md "Prefers mail."')
    .action(async (document, given, { tenant, ifVersion }) => {
      const path = given.startsWith('@') ? given.slice(1) : given === '-' ? given : undefined;
      const text = path === undefined ? given : (await readBytes(cli.host, path)).toString();
      const answer = await (await cli.client()).putMemory({
        params: { workspace_id: await cli.workspaceId(), document },
        query: { tenant_id: tenant },
        body: { text, if_version: ifVersion },
      });
      cli.output.result(answer, ({ name, version }) => `${name} has version ${version}`);
    });
};

export default memory;

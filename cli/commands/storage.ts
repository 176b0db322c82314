import { operations } from '../operation.ts';
import type { Configure } from '../shared/cli.ts';
import { readJson } from '../shared/input.ts';

const storage: Configure = (command, cli) => {
  operations([
    {
      name: 'ns',
      operation: 'listNamespaces',
      list: 'namespaces',
      summary: 'List the namespaces',
      example: 'storage ns',
    },
    { name: 'ls', operation: 'listDocuments', list: 'keys', example: 'storage ls notes' },
    { name: 'get', operation: 'getDocument', example: 'storage get notes today' },
    {
      name: 'rm',
      operation: 'deleteDocument',
      confirm: 'Delete the document',
      example: 'storage rm notes today --yes',
    },
    {
      name: 'rm-ns',
      operation: 'deleteNamespace',
      confirm: 'Delete all documents in the namespace',
      example: 'storage rm-ns drafts --yes',
    },
  ])(command, cli);
  for (const [name, operation, summary] of [
    ['put', 'putDocument', 'Create or replace a document'],
    ['patch', 'patchDocument', 'Update members of a document'],
  ] as const) {
    const sub = command
      .command(name)
      .description(summary)
      .argument('<namespace>')
      .argument('<key>')
      .argument('<json>', 'Document: JSON, @file, or - for stdin')
      .addHelpText('after', `\nExample:\n  $ platform storage ${name} notes today '{"text": "rain"}'`);
    if (name === 'put') sub.option('--if-version <number>', 'Fail unless the document still has this version');
    // Only `put` has the option.
    sub.action(async (namespace, key, json, { ifVersion }: { readonly ifVersion?: string }) => {
      const body = (await readJson(cli.host, json)) as Record<string, unknown>;
      const headers = { ...(ifVersion !== undefined && { 'if-match': ifVersion }) };
      const document = await (await cli.client())[operation]({ params: { namespace, key }, body, headers });
      cli.output.result(document);
    });
  }
};

export default storage;

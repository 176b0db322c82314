import { Readable, Writable } from 'node:stream';
import { finished } from 'node:stream/promises';
import type { Configure } from '../cli.ts';

const mcp: Configure = (command, cli) => {
  command
    .addHelpText(
      'after',
      `
A coding agent starts it: stdin and stdout speak the Model Context Protocol, until stdin ends. \`platform agent-setup\` writes
the configuration. Its tools act as you, in the workspace of the command line.

Example:
  $ platform mcp`,
    )
    .action(async () => {
      const { serveStdio, StdioServerTransport } = await import('@modelcontextprotocol/server/stdio');
      const { mcpServer } = await import('../mcp/server.ts');
      const input = Readable.from(cli.host.stdin);
      const output = new Writable({
        write(chunk: Buffer, _, done) {
          cli.host.stdout.write(chunk.toString());
          done();
        },
      });
      const handle = serveStdio(() => mcpServer(cli), {
        transport: new StdioServerTransport(input, output),
        onerror: (error) => cli.output.warn(error.message),
      });
      await finished(input, { writable: false });
      await handle.close();
    });
};

export default mcp;

import { Readable, Writable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { UsageError } from '#client/usage-error.ts';
import { escapeControls } from '#core/base/control-characters.ts';
import type { Cli, Configure } from '../shared/cli.ts';
import { members } from '../shared/output.ts';

const mcp: Configure = (command, cli) => {
  command
    .option('--http', 'serve HTTP on this machine, until Ctrl-C, in place of stdin and stdout')
    .option('--port <number>', 'with --http; 0 takes a free one', '4282')
    .addHelpText(
      'after',
      `
A coding agent starts it: stdin and stdout speak the Model Context Protocol, until stdin ends. \`platform agent-setup\` writes
the configuration. Its tools act as you, in the workspace of the command line. With --http, clients need the token that it
prints; PLATFORM_MCP_TOKEN makes it always the same.

Examples:
  $ platform mcp
  $ platform mcp --http --port 0`,
    )
    .action(async ({ http = false, port }) => (http ? serveHttp(cli, port) : serveStdin(cli)));
};

async function serveStdin(cli: Cli): Promise<void> {
  const { serveStdio, StdioServerTransport } = await import('@modelcontextprotocol/server/stdio');
  const { mcpServer } = await import('../mcp/server.ts');
  const input = Readable.from(cli.host.stdin);
  const output = new Writable({
    write(chunk: Buffer, _, done) {
      cli.host.stdout.write(escapeControls(chunk.toString()));
      done();
    },
  });
  const handle = serveStdio(() => mcpServer(cli), {
    transport: new StdioServerTransport(input, output),
    onerror: (error) => cli.output.warn(error.message),
  });
  await finished(input, { writable: false });
  await handle.close();
}

async function serveHttp(cli: Cli, port: string): Promise<void> {
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) throw new UsageError(`--port is "${port}", but no port.`);
  const { serveMcpHttp } = await import('../mcp/http.ts');
  const { promise: interrupted, resolve } = Promise.withResolvers<void>();
  const stop = cli.host.onInterrupt(resolve);
  const server = await serveMcpHttp(cli, Number(port), cli.host.env.PLATFORM_MCP_TOKEN);
  cli.output.result({ url: server.url, token: server.token }, members);
  await interrupted;
  stop();
  await server.close();
}

export default mcp;

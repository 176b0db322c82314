/** Maps requests in messages of the API to commands. `$1` is the first path parameter. */
const COMMANDS: readonly (readonly [request: RegExp, command: string])[] = [
  [
    /\bPUT \/workspaces\/[^/\s]+\/grants\/([^/\s]+)\/([^/\s]+) with (\{[^}]*\})/g,
    "platform grants put $1/$2 --body '$3'",
  ],
  [/\b(?:PUT|POST) \/workspaces\/[^/\s]+\/secrets\b/g, 'platform secrets set NAME'],
  [/\bPOST \/workspaces\/[^/\s]+\/services\/([^/\s]+)\/update-version\b/g, 'platform service follow $1'],
  [/\bPOST \/workspaces\/[^/\s]+\/services\b(?!\/)/g, 'platform service deploy ORG/AGENT'],
  [/\bPOST \/agents\/[^/\s]+\/upload\b/g, 'platform publish'],
  [/\bPATCH \/agents\/\{id\}/g, 'platform update AGENT'],
  [/\bDELETE \/agents\/\{id\}/g, 'platform delete AGENT'],
  [/\bPOST \/uploads\b/g, 'platform api createUpload'],
  [/\bPOST \/billing\/checkout\b/g, 'platform billing add'],
  [/\bGET \/billing\/transactions\b/g, 'platform billing history'],
  [/\bGET \/openapi\.json/g, 'platform api --list'],
  [/\bGET \/health\b/g, 'platform status'],
];

/** Replaces requests in a message or hint of the API with commands. */
export const withCommands = (text: string): string =>
  COMMANDS.reduce((told, [request, command]) => told.replace(request, `\`${command}\``), text);

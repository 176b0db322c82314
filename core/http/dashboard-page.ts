/** What only the host of a dashboard knows. */
export interface DashboardPage {
  /** Path of the dashboard as browsers see it, such as `/dashboard/`; a proxy may serve it under another path. */
  readonly basePath: string;
  /** Command that readers type to start the command line, such as `npx platform`. */
  readonly command: string;
}

/** Returns the single page of the dashboard with what its host knows, in place of the values in `dashboard/index.html`. */
export const dashboardPage = (html: string, { basePath, command }: DashboardPage): string =>
  html
    .replace(/<base href="[^"]*"/, () => `<base href="${basePath}"`)
    .replace(
      /<meta name="platform-command" content="[^"]*"/,
      () => `<meta name="platform-command" content="${command}"`,
    );

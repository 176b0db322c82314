/** Path of the dashboard, such as `/dashboard/`. The API is one level above it, on the same origin. */
export const BASE_PATH = new URL(document.baseURI).pathname;
export const API_URL = new URL('..', document.baseURI).href.replace(/\/$/, '');
/** The command that starts the command line, as the host of this dashboard says. */
export const COMMAND = document.querySelector<HTMLMetaElement>('meta[name="platform-command"]')!.content;

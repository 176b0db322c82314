/** Where the dashboard is, such as `/dashboard/`, and where the API is: right above it, on the same origin. */
export const BASE_PATH = new URL(document.baseURI).pathname;
export const API_URL = new URL('..', document.baseURI).href.replace(/\/$/, '');

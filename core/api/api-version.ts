/** Of the API, as its document says it; raised when old clients no longer work. */
export const API_VERSION = '1';

declare module 'virtual:operations' {
  const operations: Readonly<Record<string, readonly [method: string, path: string]>>;
  export default operations;
}

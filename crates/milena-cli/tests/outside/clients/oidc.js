// A small OpenID provider for tests of OAUTHBEARER: it signs tokens for anyone with the right password.
//
// `node oidc.js [SECONDS]` serves POST /token and GET /jwks on loopback until its stdin ends; tokens live that long. It
// prints its URL. The client `mallory` gets tokens whose signature is not by the published key.

const crypto = require('node:crypto')
const http = require('node:http')

const LIFETIME_S = Number(process.argv[2] || 3600)
const KEY_ID = 'judge'

const ours = crypto.generateKeyPairSync('rsa', { modulusLength: 2048 })
const forged = crypto.generateKeyPairSync('rsa', { modulusLength: 2048 })

const encode = value => Buffer.from(JSON.stringify(value)).toString('base64url')

function token(subject, issuer) {
  const now = Math.floor(Date.now() / 1000)
  const claims = { sub: subject, aud: 'milena', iss: issuer, iat: now, exp: now + LIFETIME_S, scope: 'kafka' }
  const text = `${encode({ alg: 'RS256', typ: 'JWT', kid: KEY_ID })}.${encode(claims)}`
  const key = subject === 'mallory' ? forged.privateKey : ours.privateKey
  return `${text}.${crypto.sign('sha256', Buffer.from(text), key).toString('base64url')}`
}

function reply(response, status, body) {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body))
}

const server = http.createServer((request, response) => {
  const issuer = `http://127.0.0.1:${server.address().port}`
  if (request.url === '/jwks') {
    const key = ours.publicKey.export({ format: 'jwk' })
    return reply(response, 200, { keys: [{ ...key, kid: KEY_ID, use: 'sig', alg: 'RS256' }] })
  }
  const [kind, credentials] = (request.headers.authorization || '').split(' ')
  const [id, secret] = Buffer.from(credentials || '', 'base64').toString().split(':')
  request.resume()
  request.on('end', () => {
    if (request.url !== '/token' || request.method !== 'POST' || kind !== 'Basic' || secret !== `${id}-secret`) {
      return reply(response, 401, { error: 'invalid_client', error_description: 'the password is wrong' })
    }
    reply(response, 200, { access_token: token(id, issuer), token_type: 'Bearer', expires_in: LIFETIME_S })
  })
})

server.listen(0, '127.0.0.1', () => console.log(`OIDC=http://127.0.0.1:${server.address().port}`))
process.stdin.on('end', () => process.exit(0)).resume()

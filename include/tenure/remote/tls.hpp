// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

// Opt-in: needs OpenSSL (Debian: libssl-dev) at compile time and to link: OpenSSL::SSL.

#include <array>
#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>

#include <tenure/error.hpp>
#include <tenure/remote/security.hpp>
#include <tenure/remote/transport.hpp>
#include <tenure/remote/trust.hpp>

namespace tenure {

/// Paths of PEM files.
struct tls_files {
    std::string certificate;  ///< followed by those that lead to a known authority; a server needs one
    std::string key;
    std::string authorities;  ///< the authorities that vouch for the other side. Empty, of a client: those of the
                              ///< system. Empty, of a server: clients need no certificate, but a token. Where the
                              ///< file has revocation lists, too, a revoked certificate is refused, and so is one
                              ///< whose authority has no list there
};

/// TLS over a Unix or TCP socket.
class tls_transport final : public transport {
public:
    tls_transport(plain_transport::socket s, boost::asio::ssl::context& c) : stream_(std::move(s), c) {}

    boost::asio::any_io_executor get_executor() override { return stream_.get_executor(); }

    void async_read_some(std::span<boost::asio::mutable_buffer const> into, handler done) override {
        reading_.assign(into.begin(), into.end());
        stream_.async_read_some(std::span(reading_), std::move(done));
    }
    void async_write_some(std::span<boost::asio::const_buffer const> from, handler done) override {
        writing_.assign(from.begin(), from.end());
        stream_.async_write_some(std::span(writing_), std::move(done));
    }
    /// Closes the socket without TLS's farewell. A frame has a length, so one that is cut short is recognized.
    void close() noexcept override {
        boost::system::error_code ignored;
        stream_.lowest_layer().close(ignored);
    }

    boost::asio::ssl::stream<plain_transport::socket>& stream() noexcept { return stream_; }

private:
    std::vector<boost::asio::mutable_buffer>          reading_;
    std::vector<boost::asio::const_buffer>            writing_;
    boost::asio::ssl::stream<plain_transport::socket> stream_;
};

/// Shakes hands as a server or as a client, in TLS 1.2 or later. Thread-safe.
class tls : public security {
public:
    bool proves_peer() const noexcept override { return proves_; }

    void async_secure(socket s, std::string const& host, handler done) override {
        auto const t      = std::make_shared<tls_transport>(std::move(s), context_);
        auto&      stream = t->stream();
        if (role_ == boost::asio::ssl::stream_base::client) {
            boost::system::error_code ec;
            // Fails for an IP address, which is not allowed there.
            ::SSL_set_tlsext_host_name(stream.native_handle(), host.c_str());
            stream.set_verify_callback(boost::asio::ssl::host_name_verification(host), ec);
            if (ec) return done(ec, nullptr, {});
        }
        stream.async_handshake(role_, [t, done = std::move(done)](boost::system::error_code ec) {
            if (ec) {
                t->close();
                return done(ec, nullptr, {});
            }
            std::string who;
            try {
                who = peer_of(t->stream());
            } catch (std::exception const&) {
                t->close();
                return done(boost::system::errc::make_error_code(boost::system::errc::not_enough_memory), nullptr,
                            {});
            }
            done(ec, t, who);
        });
    }

protected:
    tls(boost::asio::ssl::stream_base::handshake_type role, tls_files const& files)
        : role_(role),
          context_(role == boost::asio::ssl::stream_base::server ? boost::asio::ssl::context::tls_server
                                                                 : boost::asio::ssl::context::tls_client) {
        bool const server = role == boost::asio::ssl::stream_base::server;
        auto const with   = [](std::string const& path, auto f) {
            boost::system::error_code ec;
            f(path, ec);
            if (ec) throw error(std::error_code(ec), "TLS: " + path);
        };
        ::SSL_CTX_set_min_proto_version(context_.native_handle(), TLS1_2_VERSION);
        ::SSL_CTX_set_options(context_.native_handle(),
                              SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
        ::SSL_CTX_set_session_cache_mode(context_.native_handle(), SSL_SESS_CACHE_OFF);
        auto const read = [](char const* what, std::string const& path, detail::others_may most) {
            return detail::read_named_file(std::string("TLS: ") + what, path, most);
        };
        using detail::others_may;
        if (!files.certificate.empty() || server) {
            auto const chain = read("certificate", files.certificate, others_may::write);
            with(files.certificate,
                 [&](auto&, auto& ec) { context_.use_certificate_chain(boost::asio::buffer(chain), ec); });
            // A user who can read the key can pretend to be its owner.
            auto const key = read("private key", files.key, others_may::nothing);
            with(files.key, [&](auto&, auto& ec) {
                context_.use_private_key(boost::asio::buffer(key), boost::asio::ssl::context::pem, ec);
            });
        }
        proves_ = !server || !files.authorities.empty();
        if (!files.authorities.empty()) {
            // A user who can write the authorities can let in anybody.
            auto const all = read("authorities", files.authorities, others_may::read);
            with(files.authorities, [&](auto&, auto& ec) { ec = trust(detail::view_of(all)); });
        } else if (!server) {
            with("the system's authorities", [&](auto&, auto& ec) { context_.set_default_verify_paths(ec); });
        }
        context_.set_verify_mode(proves_
                                     ? boost::asio::ssl::verify_peer | boost::asio::ssl::verify_fail_if_no_peer_cert
                                     : boost::asio::ssl::verify_none);
    }

private:
    /// Adds certificates to the authorities that vouch for the other side, and revocation lists to the context's
    /// store. Returns OpenSSL's error; invalid_argument if there is no certificate.
    boost::system::error_code trust(std::string_view pem) {
        ::ERR_clear_error();
        std::unique_ptr<::BIO, decltype(&::BIO_free)> const text(
            ::BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &::BIO_free);
        auto const free_all = [](STACK_OF(X509_INFO) * all) { sk_X509_INFO_pop_free(all, &::X509_INFO_free); };
        std::unique_ptr<STACK_OF(X509_INFO), decltype(free_all)> const all(
            text ? ::PEM_X509_INFO_read_bio(text.get(), nullptr, nullptr, nullptr) : nullptr, free_all);
        ::X509_STORE* const known = ::SSL_CTX_get_cert_store(context_.native_handle());
        bool                good = false, failed = !all;
        for (int i = 0; all && i < sk_X509_INFO_num(all.get()); ++i) {
            ::X509_INFO const* const one = sk_X509_INFO_value(all.get(), i);
            if (one->x509) good = true;
            if (one->x509 && !::X509_STORE_add_cert(known, one->x509)) failed = true;
            if (one->crl && (!::X509_STORE_add_crl(known, one->crl) ||
                             !::X509_STORE_set_flags(known, X509_V_FLAG_CRL_CHECK)))  // else nobody looks at it
                failed = true;
        }
        if (good && !failed) return {};
        auto const why = static_cast<int>(::ERR_get_error());
        return why ? boost::system::error_code(why, boost::asio::error::get_ssl_category())
                   : boost::asio::error::invalid_argument;
    }

    /// The longest subject, in bytes. A longer one is replaced by the fingerprint: names stand in logs and in the
    /// status.
    static constexpr long most_subject = 255;

    /// Returns the peer's name: the subject of its certificate as RFC 4514 writes it, or the fingerprint where
    /// that is empty or long. Printable. Empty if no certificate was shown.
    static std::string peer_of(boost::asio::ssl::stream<plain_transport::socket>& s) {
        std::unique_ptr<::X509, decltype(&::X509_free)> const shown(::SSL_get1_peer_certificate(s.native_handle()),
                                                                    &::X509_free);
        if (!shown) return {};
        std::unique_ptr<::BIO, decltype(&::BIO_free)> const text(::BIO_new(::BIO_s_mem()), &::BIO_free);
        if (text &&
            ::X509_NAME_print_ex(text.get(), ::X509_get_subject_name(shown.get()), 0, XN_FLAG_RFC2253) > 0) {
            char*      at = nullptr;
            long const n  = BIO_get_mem_data(text.get(), &at);
            if (n > 0 && n <= most_subject)
                return std::string(at, static_cast<std::size_t>(n));  // RFC 2253 escapes what is not printable
        }
        std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
        unsigned                                   size = 0;
        if (!::X509_digest(shown.get(), ::EVP_sha256(), digest.data(), &size)) return "unnamed";
        std::string out = "sha256:";
        for (unsigned i = 0; i < size; ++i) {
            out += "0123456789abcdef"[digest[i] >> 4];
            out += "0123456789abcdef"[digest[i] & 15];
        }
        return out;
    }

    boost::asio::ssl::stream_base::handshake_type role_;
    boost::asio::ssl::context                     context_;
    bool                                          proves_ = false;
};

/// The server's side of TLS: shows its certificate, and asks for the clients' if there are authorities.
class tls_server final : public tls {
public:
    /// Throws what OpenSSL or the system says of a file, with its name; access_denied if users other than the
    /// owner may read or write the key, or write the authorities; not_a_file for a pipe, a device or a directory;
    /// limit_exceeded beyond 16 MiB.
    explicit tls_server(tls_files const& files) : tls(boost::asio::ssl::stream_base::server, files) {}
};

/// The client's side of TLS: talks only to a server whose certificate is for the host that was called, from an
/// authority that it knows. Shows its own certificate if there is one.
class tls_client final : public tls {
public:
    /// Throws what the constructor of tls_server throws.
    explicit tls_client(tls_files const& files = {}) : tls(boost::asio::ssl::stream_base::client, files) {}
};

}  // namespace tenure
